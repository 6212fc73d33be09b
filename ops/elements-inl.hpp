// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// The element types: how elements are stored in memory, and in which type they are computed. This file is included once
// for each SIMD target, so each inclusion toggles its include guard.
#if defined(RUEDA_OPS_ELEMENTS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RUEDA_OPS_ELEMENTS_INL
#undef RUEDA_OPS_ELEMENTS_INL
#else
#define RUEDA_OPS_ELEMENTS_INL
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace rueda::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Loads lanes (elements of a vector) from memory of any alignment. A single lane is copied by memcpy: on some targets,
/// Highway reads it through a typed pointer, which is undefined behaviour for unaligned memory.
template <class D>
HWY_INLINE hn::Vec<D> load_lanes(D d, const std::byte* memory) {
    using T = hn::TFromD<D>;
    if constexpr (hn::MaxLanes(D()) == 1) {
        T value;
        std::memcpy(&value, memory, sizeof(T));
        return hn::Set(d, value);
    } else {
        return hn::LoadU(d, reinterpret_cast<const T*>(memory));
    }
}

template <class D>
HWY_INLINE void store_lanes(D d, hn::Vec<D> v, std::byte* memory) {
    using T = hn::TFromD<D>;
    if constexpr (hn::MaxLanes(D()) == 1) {
        const T value = hn::GetLane(v);
        std::memcpy(memory, &value, sizeof(T));
    } else {
        hn::StoreU(v, d, reinterpret_cast<T*>(memory));
    }
}

/// An element type that is computed in the same type in which it is stored.
template <class T>
struct Plain {
    using Lane = T;
    using Memory = T;
    template <class D>
    static HWY_INLINE hn::Vec<D> load(D d, const std::byte* memory) {
        return load_lanes(d, memory);
    }
    template <class D>
    static HWY_INLINE hn::Vec<D> to_memory(D /*d*/, hn::Vec<D> v) {
        return v;
    }
};

/// bool: every byte except 0 means true. Loading turns each byte into 0 or 1. Then min is the logical AND, max is the
/// logical OR, and every result is 0 or 1.
struct Boolean {
    using Lane = std::uint8_t;
    using Memory = std::uint8_t;
    template <class D>
    static HWY_INLINE hn::Vec<D> load(D d, const std::byte* memory) {
        return hn::Min(load_lanes(d, memory), hn::Set(d, Lane{1}));
    }
    template <class D>
    static HWY_INLINE hn::Vec<D> to_memory(D /*d*/, hn::Vec<D> v) {
        return v;
    }
};

/// bfloat16: the upper half of a float32. Computations are done in float32, and rounded once at the end.
struct BFloat16 {
    using Lane = float;
    using Memory = std::uint16_t;
    template <class D>
    static HWY_INLINE hn::Vec<D> load(D d, const std::byte* memory) {
        const hn::RebindToUnsigned<D> d_bits;
        const hn::Rebind<Memory, D> d_memory;
        return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d_bits, load_lanes(d_memory, memory))));
    }
    /// Rounds to nearest even. A NaN must have gone through canonical_nan() before, because rounding another NaN could
    /// change its exponent.
    template <class D>
    static HWY_INLINE hn::Vec<hn::Rebind<Memory, D>> to_memory(D /*d*/, hn::Vec<D> v) {
        const hn::RebindToUnsigned<D> d_bits;
        const hn::RebindToSigned<D> d_signed;
        const hn::Rebind<Memory, D> d_memory;
        const auto bits = hn::BitCast(d_bits, v);
        const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d_bits, 1u));
        const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d_bits, 0x7FFFu)));
        return hn::DemoteTo(d_memory, hn::BitCast(d_signed, hn::ShiftRight<16>(rounded)));
    }
};

/// float16: IEEE 754 binary16. If every CPU of the target has instructions for the conversion, they are used; otherwise
/// integer arithmetic is used.
struct Float16 {
    using Lane = float;
    using Memory = std::uint16_t;

    static constexpr bool kHasInstructions = HWY_ARCH_X86 != 0 && HWY_TARGET <= HWY_AVX2;

    template <class D>
    static HWY_INLINE hn::Vec<D> load(D d, const std::byte* memory) {
        const hn::Rebind<Memory, D> d_memory;
        const auto bits = load_lanes(d_memory, memory);
        if constexpr (kHasInstructions) {
            return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
        } else {
            return widened(d, hn::PromoteTo(hn::RebindToUnsigned<D>(), bits));
        }
    }
    template <class D>
    static HWY_INLINE hn::Vec<hn::Rebind<Memory, D>> to_memory(D d, hn::Vec<D> v) {
        const hn::Rebind<Memory, D> d_memory;
        if constexpr (kHasInstructions) {
            return hn::BitCast(d_memory, hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v));
        } else {
            return hn::DemoteTo(d_memory, hn::BitCast(hn::RebindToSigned<D>(), narrowed(d, v)));
        }
    }

private:
    /// Converts float16 to float32. There are three ranges of magnitudes. Below 2^-14 there is no implicit bit, and the
    /// value is an integer times 2^-24. For ordinary values, 112 is added to the exponent, because the bias changes
    /// from 15 to 127. For infinity and NaN, 112 is added once more, so that all bits of the exponent are ones.
    template <class D>
    static HWY_INLINE hn::Vec<D> widened(D d, hn::Vec<hn::RebindToUnsigned<D>> bits) {
        const hn::RebindToUnsigned<D> d_bits;
        const hn::RebindToSigned<D> d_signed;
        const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(d_bits, 0x8000u)));
        const auto magnitude = hn::BitCast(d_signed, hn::And(bits, hn::Set(d_bits, 0x7FFFu)));
        const auto bias = hn::Set(d_signed, 112 << 23);
        const auto ordinary = hn::Add(hn::ShiftLeft<13>(magnitude), bias);
        const auto special = hn::Add(ordinary, bias);
        const auto subnormal =
            hn::BitCast(d_signed, hn::Mul(hn::ConvertTo(d, magnitude), hn::Set(d, 5.9604644775390625e-8f)));
        const auto finite = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d_signed, 0x0400)), subnormal, ordinary);
        const auto all = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d_signed, 0x7BFF)), special, finite);
        return hn::BitCast(d, hn::Or(sign, hn::BitCast(d_bits, all)));
    }

    /// Converts float32 to float16, rounding to nearest even. Results below 2^-14 are rounded by adding 0.5. This works
    /// because their last bit stands for 2^-24, and so does the last bit of a float32 just above 0.5. From 65520 on,
    /// the result is infinite. NaN becomes 0x7E00.
    template <class D>
    static HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> narrowed(D d, hn::Vec<D> v) {
        const hn::RebindToUnsigned<D> d_bits;
        const hn::RebindToSigned<D> d_signed;
        const auto bits = hn::BitCast(d_bits, v);
        const auto sign = hn::ShiftRight<16>(hn::And(bits, hn::Set(d_bits, 0x80000000u)));
        const auto magnitude = hn::BitCast(d_signed, hn::And(bits, hn::Set(d_bits, 0x7FFFFFFFu)));
        const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d_signed, 1));
        const auto rounded = hn::Add(magnitude, hn::Add(odd, hn::Set(d_signed, 0x0FFF - (112 << 23))));
        const auto ordinary = hn::ShiftRight<13>(rounded);
        const auto half = hn::Set(d, 0.5f);
        const auto subnormal =
            hn::Sub(hn::BitCast(d_signed, hn::Add(hn::BitCast(d, magnitude), half)), hn::BitCast(d_signed, half));
        const auto finite = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d_signed, 0x38800000)), subnormal, ordinary);
        const auto infinite =
            hn::IfThenElse(hn::Gt(magnitude, hn::Set(d_signed, 0x477FEFFF)), hn::Set(d_signed, 0x7C00), finite);
        const auto all =
            hn::IfThenElse(hn::Gt(magnitude, hn::Set(d_signed, 0x7F800000)), hn::Set(d_signed, 0x7E00), infinite);
        return hn::Or(sign, hn::BitCast(d_bits, all));
    }
};

}  // namespace rueda::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // RUEDA_OPS_ELEMENTS_INL
