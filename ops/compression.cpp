// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// This file is compiled once per SIMD target, like reduce_floats.cpp: foreach_target.h includes it again.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/compression.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
//
#include <hwy/highway.h>

#include <cstdint>

#include "base/assert.hpp"
#include "ops/compression.hpp"
#include "ops/elements-inl.hpp"
#include "ops/operations-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rueda::ops::HWY_NAMESPACE {

/// Prepares a double for rounding to a 16-bit type via float32, so that rounding twice gives the same result as
/// rounding `v` once. The returned number fits into float32. It lies on the same side as `v` of every halfway point
/// between two 16-bit numbers; if `v` is such a point, the returned number is this point. To achieve this, the function
/// drops the 29 bits that do not fit into float32. If one of the dropped bits is set, it sets the lowest bit that fits
/// (rounding to odd).
///
/// If `v` is so small that the float32 number is subnormal, more than 29 bits of `v` do not fit. The function rounds
/// such a `v` to a multiple of 2^-133, the smallest bfloat16 number. To do this, it adds 2^-81 and subtracts it again:
/// the last bit of a double near 2^-81 stands for 2^-133. For float16 this is more precise than necessary, because all
/// such numbers become zeros.
template <class D>
HWY_INLINE hn::Vec<D> shortened(D d, hn::Vec<D> v) {
    const hn::RebindToUnsigned<D> d_bits;
    const auto bits = hn::BitCast(d_bits, v);
    const auto tail = hn::Set(d_bits, (std::uint64_t{1} << 29) - 1);
    // If a bit of the tail (the 29 bits) is set, the addition carries into the bit above the tail.
    const auto sticky = hn::And(hn::Add(hn::And(bits, tail), tail), hn::Set(d_bits, std::uint64_t{1} << 29));
    const auto odd = hn::BitCast(d, hn::Or(hn::AndNot(tail, bits), sticky));
    const auto magnitude = hn::Abs(v);
    const auto place = hn::Set(d, 0x1p-81);
    const auto tiny = hn::CopySign(hn::Sub(hn::Add(magnitude, place), place), v);
    return hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0x1p-126)), tiny, odd);
}

/// An element type that is stored as 16 bits and computed as double.
template <class Half>
struct AsDouble {
    using Lane = double;
    using Memory = std::uint16_t;
    template <class D>
    static HWY_INLINE hn::Vec<D> load(D d, const std::byte* memory) {
        return hn::PromoteTo(d, Half::load(hn::Rebind<float, D>(), memory));
    }
    template <class D>
    static HWY_INLINE hn::Vec<hn::Rebind<Memory, D>> to_memory(D d, hn::Vec<D> v) {
        const hn::Rebind<float, D> d_float;
        // A NaN is still a NaN after shortened(), which does not change the bit that marks a quiet NaN.
        return Half::to_memory(d_float, canonical_nan(d_float, hn::DemoteTo(d_float, shortened(d, v))));
    }
};

/// Processes the elements from 0 to `count` in whole vectors, and the last elements one by one. For each vector or
/// element, calls f with its Highway tag and the index of its first element.
template <class Lane, class F>
HWY_INLINE void for_each_vector(std::size_t count, F&& f) {
    const hn::ScalableTag<Lane> whole;
    const hn::CappedTag<Lane, 1> single;
    const std::size_t step = hn::Lanes(whole);
    std::size_t i = 0;
    for (; i + step <= count; i += step) {
        f(whole, i);
    }
    for (; i < count; ++i) {
        f(single, i);
    }
}

template <class Element>
void compress_elements(const std::byte* elements, std::byte* halves, std::size_t count) {
    using Lane = typename Element::Lane;
    for_each_vector<Lane>(count, [&](auto d, std::size_t i) HWY_ATTR {
        const auto v = canonical_nan(d, load_lanes(d, elements + i * sizeof(Lane)));
        const hn::Rebind<std::uint16_t, decltype(d)> d_memory;
        store_lanes(d_memory, Element::to_memory(d, v), halves + i * kCompressedBytes);
    });
}

template <class Element>
void expand_elements(const std::byte* halves, std::byte* elements, double factor, std::size_t count) {
    using Lane = typename Element::Lane;
    const auto by = static_cast<Lane>(factor);
    const bool scales = factor != 1.0;
    for_each_vector<Lane>(count, [&](auto d, std::size_t i) HWY_ATTR {
        auto v = Element::load(d, halves + i * kCompressedBytes);
        if (scales) {
            v = hn::Mul(v, hn::Set(d, by));
        }
        store_lanes(d, canonical_nan(d, v), elements + i * sizeof(Lane));
    });
}

template <class Element, class Operation>
void reduce_elements(std::span<const std::byte* const> sources, std::byte* destination, std::size_t count) {
    for_each_vector<typename Element::Lane>(count, [&](auto d, std::size_t i) HWY_ATTR {
        auto v = Element::load(d, sources[0] + i * kCompressedBytes);
        for (std::size_t s = 1; s < sources.size(); ++s) {
            v = Operation::combine(d, v, Element::load(d, sources[s] + i * kCompressedBytes));
        }
        const hn::Rebind<std::uint16_t, decltype(d)> d_memory;
        store_lanes(d_memory, Element::to_memory(d, canonical_nan(d, v)), destination + i * kCompressedBytes);
    });
}

/// Calls f with an object of the element's type.
template <class F>
void with_element(const Compressed& way, F&& f) {
    const bool is_double = way.dtype == DType::float64;
    if (way.compression == Compression::fp16) {
        is_double ? f(AsDouble<Float16>()) : f(Float16());
    } else {
        is_double ? f(AsDouble<BFloat16>()) : f(BFloat16());
    }
}

void run_compress(const Compressed& way, const std::byte* elements, std::byte* halves, std::size_t count) {
    with_element(way, [&](auto element) { compress_elements<decltype(element)>(elements, halves, count); });
}

void run_expand(const Compressed& way, const std::byte* halves, std::byte* elements, double factor, std::size_t count) {
    with_element(way, [&](auto element) { expand_elements<decltype(element)>(halves, elements, factor, count); });
}

template <class Element>
void run_reduce_of(ReduceOp op, std::span<const std::byte* const> sources, std::byte* destination, std::size_t count) {
    switch (op) {
        case ReduceOp::sum:
            return reduce_elements<Element, Sum>(sources, destination, count);
        case ReduceOp::min:
            return reduce_elements<Element, Min>(sources, destination, count);
        case ReduceOp::max:
            return reduce_elements<Element, Max>(sources, destination, count);
        case ReduceOp::product:
            return reduce_elements<Element, Product>(sources, destination, count);
        case ReduceOp::average:
        case ReduceOp::adasum:
            break;
    }
    constexpr bool kIsCombinedBetweenHosts = false;
    RUEDA_ASSERT(kIsCombinedBetweenHosts);
}

/// Reduces compressed float64 elements.
void run_reduce(const Compressed& way, ReduceOp op, std::span<const std::byte* const> sources, std::byte* destination,
                std::size_t count) {
    if (way.compression == Compression::fp16) {
        run_reduce_of<AsDouble<Float16>>(op, sources, destination, count);
    } else {
        run_reduce_of<AsDouble<BFloat16>>(op, sources, destination, count);
    }
}

}  // namespace rueda::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rueda::ops {
namespace {

HWY_EXPORT(run_compress);
HWY_EXPORT(run_expand);
HWY_EXPORT(run_reduce);

bool is_compressed(const Compressed& way) {
    return (way.dtype == DType::float32 || way.dtype == DType::float64) &&
           (way.compression == Compression::fp16 || way.compression == Compression::bf16);
}

}  // namespace

void compress(const Compressed& way, const std::byte* elements, std::byte* halves, std::size_t count) {
    RUEDA_ASSERT(is_compressed(way));
    HWY_DYNAMIC_DISPATCH(run_compress)(way, elements, halves, count);
}

void expand(const Compressed& way, const std::byte* halves, std::byte* elements, double factor, std::size_t count) {
    RUEDA_ASSERT(is_compressed(way));
    HWY_DYNAMIC_DISPATCH(run_expand)(way, halves, elements, factor, count);
}

void reduce_compressed(const Compressed& way, ReduceOp op, std::span<const std::byte* const> sources,
                       std::byte* destination, std::size_t count) {
    RUEDA_ASSERT(is_compressed(way) && !sources.empty());
    // For float32 elements, reduce() on the 16-bit type gives the same result, because it also computes in float32.
    if (way.dtype == DType::float32) {
        const DType halves = way.compression == Compression::fp16 ? DType::float16 : DType::bfloat16;
        reduce({.dtype = halves, .op = op}, sources, {&destination, 1}, count);
    } else {
        HWY_DYNAMIC_DISPATCH(run_reduce)(way, op, sources, destination, count);
    }
}

}  // namespace rueda::ops
#endif  // HWY_ONCE
