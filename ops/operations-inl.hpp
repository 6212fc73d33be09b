// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// The operations on vectors of elements. This file is included once for each SIMD target, so each inclusion toggles its
// include guard.
#if defined(RUEDA_OPS_OPERATIONS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RUEDA_OPS_OPERATIONS_INL
#undef RUEDA_OPS_OPERATIONS_INL
#else
#define RUEDA_OPS_OPERATIONS_INL
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace rueda::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Turns every NaN into the positive quiet NaN without payload. Otherwise payload and sign would depend on the CPU, and
/// on the order of an addition's operands, which compilers may change.
template <class D>
HWY_INLINE hn::Vec<D> canonical_nan(D d, hn::Vec<D> v) {
    const hn::RebindToUnsigned<D> d_bits;
    using Bits = hn::TFromD<decltype(d_bits)>;
    constexpr auto kBits = static_cast<Bits>(sizeof(Bits) == 4 ? 0x7FC00000u : 0x7FF8000000000000u);
    return hn::IfThenElse(hn::IsNaN(v), hn::BitCast(d, hn::Set(d_bits, kBits)), v);
}

struct Sum {
    template <class D>
    static HWY_INLINE hn::Vec<D> combine(D /*d*/, hn::Vec<D> a, hn::Vec<D> b) {
        return hn::Add(a, b);
    }
};

struct Product {
    template <class D>
    static HWY_INLINE hn::Vec<D> combine(D /*d*/, hn::Vec<D> a, hn::Vec<D> b) {
        return hn::Mul(a, b);
    }
};

/// Min and Max: for floating point, −0 is less than +0, and a NaN on either side gives NaN. Highway's own Min and Max
/// cannot be used: for NaN, and for +0 and −0, their results depend on the CPU. Equal numbers have equal bits, except
/// +0 and −0. Of these two, `Or` of the bits gives −0 and `And` gives +0.
struct Min {
    template <class D>
    static HWY_INLINE hn::Vec<D> combine(D /*d*/, hn::Vec<D> a, hn::Vec<D> b) {
        if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
            const auto ordered = hn::IfThenElse(hn::Lt(a, b), a, b);  // b if one operand is NaN
            const auto zeros = hn::IfThenElse(hn::Eq(a, b), hn::Or(a, b), ordered);
            return hn::IfThenElse(hn::IsNaN(a), a, zeros);
        } else {
            return hn::Min(a, b);
        }
    }
};

struct Max {
    template <class D>
    static HWY_INLINE hn::Vec<D> combine(D /*d*/, hn::Vec<D> a, hn::Vec<D> b) {
        if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
            const auto ordered = hn::IfThenElse(hn::Gt(a, b), a, b);  // b if one operand is NaN
            const auto zeros = hn::IfThenElse(hn::Eq(a, b), hn::And(a, b), ordered);
            return hn::IfThenElse(hn::IsNaN(a), a, zeros);
        } else {
            return hn::Max(a, b);
        }
    }
};

/// Which of the two factors a kernel applies: none, only the one after the reduction, or both. A kernel need not
/// multiply by a factor of 1, because the product would have the same bits. NaNs are made canonical in any case.
enum class Scaling { none, after, both };

}  // namespace rueda::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // RUEDA_OPS_OPERATIONS_INL
