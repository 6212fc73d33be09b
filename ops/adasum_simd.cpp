// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// This file is compiled once per SIMD target: foreach_target.h includes it again with other values of HWY_TARGET.
//
// Everything is computed in float64, and products are always added in eight lanes. The bits are therefore the same on
// every target. If a CPU's vectors hold four lanes, the code reads the elements twice while they are in the first-level
// cache: for lanes 0 to 3 and for lanes 4 to 7. Fused multiply-add is not used, because not every CPU has it.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/adasum_simd.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
//
#include <hwy/highway.h>

#include <type_traits>

#include "base/assert.hpp"
#include "ops/adasum.hpp"
#include "ops/adasum_kernels.hpp"
#include "ops/elements-inl.hpp"
#include "ops/operations-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rueda::ops::HWY_NAMESPACE {

template <class Element>
constexpr std::size_t kBytesOf = sizeof(typename Element::Memory);
template <class Element>
constexpr bool kIsDouble = std::is_same_v<typename Element::Lane, double>;

/// Loads elements as float64. float64 can represent every value of the smaller floating-point types.
template <class Element, class D>
HWY_INLINE hn::Vec<D> load_wide(D d, const std::byte* memory) {
    if constexpr (kIsDouble<Element>) {
        return Element::load(d, memory);
    } else {
        return hn::PromoteTo(d, Element::load(hn::Rebind<float, D>(), memory));
    }
}

template <class Element, class D>
HWY_INLINE auto narrowed_from_wide(D d, hn::Vec<D> v) {
    if constexpr (kIsDouble<Element>) {
        return Element::to_memory(d, canonical_nan(d, v));
    } else {
        const hn::Rebind<float, D> d_float;
        return Element::to_memory(d_float, canonical_nan(d_float, hn::DemoteTo(d_float, v)));
    }
}

/// Adds the squares of two sources and their product. The three sums do not depend on each other, so the CPU can
/// compute them at the same time. Each element is converted only once.
template <class Element, class D>
void add_square(D d, const std::byte* a, const std::byte* b, std::size_t count, double* aa, double* ab, double* bb) {
    constexpr std::size_t kBytes = kBytesOf<Element>;
    for (std::size_t lane = 0; lane < DotProducts::kLanes; lane += hn::Lanes(d)) {
        auto sum_aa = hn::LoadU(d, aa + lane);
        auto sum_ab = hn::LoadU(d, ab + lane);
        auto sum_bb = hn::LoadU(d, bb + lane);
        for (std::size_t i = lane; i < count; i += DotProducts::kLanes) {
            const auto x = load_wide<Element>(d, a + i * kBytes);
            const auto y = load_wide<Element>(d, b + i * kBytes);
            sum_aa = hn::Add(sum_aa, hn::Mul(x, x));
            sum_ab = hn::Add(sum_ab, hn::Mul(x, y));
            sum_bb = hn::Add(sum_bb, hn::Mul(y, y));
        }
        hn::StoreU(sum_aa, d, aa + lane);
        hn::StoreU(sum_ab, d, ab + lane);
        hn::StoreU(sum_bb, d, bb + lane);
    }
}

/// Adds the products of one source with two other sources.
template <class Element, class D>
void add_row_of_two(D d, const std::byte* a, const std::byte* b, const std::byte* c, std::size_t count, double* ab,
                    double* ac) {
    constexpr std::size_t kBytes = kBytesOf<Element>;
    for (std::size_t lane = 0; lane < DotProducts::kLanes; lane += hn::Lanes(d)) {
        auto sum_ab = hn::LoadU(d, ab + lane);
        auto sum_ac = hn::LoadU(d, ac + lane);
        for (std::size_t i = lane; i < count; i += DotProducts::kLanes) {
            const auto x = load_wide<Element>(d, a + i * kBytes);
            sum_ab = hn::Add(sum_ab, hn::Mul(x, load_wide<Element>(d, b + i * kBytes)));
            sum_ac = hn::Add(sum_ac, hn::Mul(x, load_wide<Element>(d, c + i * kBytes)));
        }
        hn::StoreU(sum_ab, d, ab + lane);
        hn::StoreU(sum_ac, d, ac + lane);
    }
}

template <class Element, class D>
void add_pair(D d, const std::byte* a, const std::byte* b, std::size_t count, double* ab) {
    constexpr std::size_t kBytes = kBytesOf<Element>;
    for (std::size_t lane = 0; lane < DotProducts::kLanes; lane += hn::Lanes(d)) {
        auto sum = hn::LoadU(d, ab + lane);
        for (std::size_t i = lane; i < count; i += DotProducts::kLanes) {
            sum = hn::Add(sum, hn::Mul(load_wide<Element>(d, a + i * kBytes), load_wide<Element>(d, b + i * kBytes)));
        }
        hn::StoreU(sum, d, ab + lane);
    }
}

HWY_INLINE double* lanes_of(const PresentSources& sources, std::size_t a, std::size_t b, double* lanes) {
    return lanes + DotProducts::kLanes * pair_index(sources.index[a], sources.index[b], sources.all);
}

template <class Element>
void add_all_pairs(const PresentSources& sources, std::size_t count, double* lanes) {
    const hn::CappedTag<double, DotProducts::kLanes> d;
    const std::size_t n = sources.count;
    for (std::size_t i = 0; i < n; i += 2) {
        if (i + 1 == n) {
            add_pair<Element>(d, sources.memory[i], sources.memory[i], count, lanes_of(sources, i, i, lanes));
        } else {
            add_square<Element>(d, sources.memory[i], sources.memory[i + 1], count, lanes_of(sources, i, i, lanes),
                                lanes_of(sources, i, i + 1, lanes), lanes_of(sources, i + 1, i + 1, lanes));
        }
    }
    for (std::size_t i = 0; i < n; ++i) {
        std::size_t j = i / 2 * 2 + 2;
        for (; j + 1 < n; j += 2) {
            add_row_of_two<Element>(d, sources.memory[i], sources.memory[j], sources.memory[j + 1], count,
                                    lanes_of(sources, i, j, lanes), lanes_of(sources, i, j + 1, lanes));
        }
        if (j < n) {
            add_pair<Element>(d, sources.memory[i], sources.memory[j], count, lanes_of(sources, i, j, lanes));
        }
    }
}

template <class Element>
void add_products_singly_of(const PresentSources& sources, std::size_t count, std::size_t lane, double* lanes) {
    const hn::CappedTag<double, 1> d;
    for (std::size_t a = 0; a < sources.count; ++a) {
        for (std::size_t b = a; b < sources.count; ++b) {
            double* const sums = lanes_of(sources, a, b, lanes) + lane;
            for (std::size_t i = 0; i < count; ++i) {
                const double x = hn::GetLane(load_wide<Element>(d, sources.memory[a] + i * kBytesOf<Element>));
                const double y = hn::GetLane(load_wide<Element>(d, sources.memory[b] + i * kBytesOf<Element>));
                sums[i] += x * y;
            }
        }
    }
}

template <class Element>
class WeightedSum {
public:
    WeightedSum(const std::byte* const* sources, const double* weights, std::size_t source_count,
                std::byte* const* destinations, std::size_t destination_count)
        : sources_(sources),
          weights_(weights),
          source_count_(source_count),
          destinations_(destinations),
          destination_count_(destination_count) {}

    HWY_INLINE void run(std::size_t count) const {
        const hn::ScalableTag<double> whole;
        const hn::CappedTag<double, 1> single;
        std::size_t i = 0;
        for (; i + hn::Lanes(whole) <= count; i += hn::Lanes(whole)) {
            one_vector(whole, i);
        }
        for (; i < count; ++i) {
            one_vector(single, i);
        }
    }

private:
    template <class D>
    HWY_INLINE void one_vector(D d, std::size_t i) const {
        const std::size_t offset = i * kBytesOf<Element>;
        auto sum = hn::Mul(hn::Set(d, weights_[0]), load_wide<Element>(d, sources_[0] + offset));
        for (std::size_t s = 1; s < source_count_; ++s) {
            if (sources_[s] == nullptr) {
                continue;
            }
            sum = hn::Add(sum, hn::Mul(hn::Set(d, weights_[s]), load_wide<Element>(d, sources_[s] + offset)));
        }
        const auto result = narrowed_from_wide<Element>(d, sum);
        for (std::size_t t = 0; t < destination_count_; ++t) {
            store_lanes(hn::Rebind<typename Element::Memory, D>(), result, destinations_[t] + offset);
        }
    }

    const std::byte* const* sources_;
    const double* weights_;
    std::size_t source_count_;
    std::byte* const* destinations_;
    std::size_t destination_count_;
};

/// Calls f with an object of the dtype's element type. The caller has already refused all types that are not
/// floating-point types.
template <class F>
void with_element(DType dtype, F&& f) {
    switch (dtype) {
        case DType::float16:
            return f(Float16());
        case DType::bfloat16:
            return f(BFloat16());
        case DType::float32:
            return f(Plain<float>());
        case DType::float64:
            return f(Plain<double>());
        default:
            break;
    }
    constexpr bool kIsFloatingPoint = false;
    RUEDA_ASSERT(kIsFloatingPoint);
}

void products_kernel(DType dtype, const PresentSources& sources, std::size_t count, double* lanes) {
    with_element(dtype, [&]<class Element>(Element) { add_all_pairs<Element>(sources, count, lanes); });
}

void single_products_kernel(DType dtype, const PresentSources& sources, std::size_t count, std::size_t lane,
                            double* lanes) {
    with_element(dtype, [&]<class Element>(Element) { add_products_singly_of<Element>(sources, count, lane, lanes); });
}

void weighted_kernel(DType dtype, const std::byte* const* sources, const double* weights, std::size_t source_count,
                     std::byte* const* destinations, std::size_t destination_count, std::size_t count) {
    with_element(dtype, [&]<class Element>(Element) {
        WeightedSum<Element>(sources, weights, source_count, destinations, destination_count).run(count);
    });
}

}  // namespace rueda::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rueda::ops {
namespace {

HWY_EXPORT(products_kernel);
HWY_EXPORT(single_products_kernel);
HWY_EXPORT(weighted_kernel);

}  // namespace

void add_products(DType dtype, const PresentSources& sources, std::size_t count, double* lanes) {
    HWY_DYNAMIC_DISPATCH(products_kernel)(dtype, sources, count, lanes);
}

void add_products_singly(DType dtype, const PresentSources& sources, std::size_t count, std::size_t lane,
                         double* lanes) {
    HWY_DYNAMIC_DISPATCH(single_products_kernel)(dtype, sources, count, lane, lanes);
}

void add_weighted(DType dtype, const std::byte* const* sources, const double* weights, std::size_t source_count,
                  std::byte* const* destinations, std::size_t destination_count, std::size_t count) {
    HWY_DYNAMIC_DISPATCH(weighted_kernel)
    (dtype, sources, weights, source_count, destinations, destination_count, count);
}

}  // namespace rueda::ops
#endif  // HWY_ONCE
