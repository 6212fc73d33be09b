// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// This file is compiled once per SIMD target: foreach_target.h includes it again with other values of HWY_TARGET.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/reduce_integers.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstdint>
#include <type_traits>

#include "base/assert.hpp"
#include "ops/pass.hpp"
#include "ops/reduce_kernel-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rueda::ops::HWY_NAMESPACE {

template <class T>
void run_integer(ReduceOp op, const Pass& pass) {
    switch (op) {
        case ReduceOp::min:
            return run_general<Plain<T>, Min, Scaling::none>(pass, 1.0, 1.0);
        case ReduceOp::max:
            return run_general<Plain<T>, Max, Scaling::none>(pass, 1.0, 1.0);
        case ReduceOp::sum:
            // Sums wrap, so signed and unsigned sums have the same bits.
            return run_general<Plain<std::make_unsigned_t<T>>, Sum, Scaling::none>(pass, 1.0, 1.0);
        case ReduceOp::average:
        case ReduceOp::adasum:
        case ReduceOp::product:
            break;
    }
    constexpr bool kIsLeftToReduceExact = true;
    RUEDA_ASSERT(!kIsLeftToReduceExact);
}

void run_boolean(ReduceOp op, const Pass& pass) {
    if (op == ReduceOp::max) {
        run_general<Boolean, Max, Scaling::none>(pass, 1.0, 1.0);
    } else {
        // a product of bools uses the code for min: for the elements 0 and 1, product and min give the same result
        run_general<Boolean, Min, Scaling::none>(pass, 1.0, 1.0);
    }
}

void integer_kernel(const Reduction& reduction, const Pass& pass) {
    switch (reduction.dtype) {
        case DType::uint8:
            return run_integer<std::uint8_t>(reduction.op, pass);
        case DType::int8:
            return run_integer<std::int8_t>(reduction.op, pass);
        case DType::int16:
            return run_integer<std::int16_t>(reduction.op, pass);
        case DType::uint16:
            return run_integer<std::uint16_t>(reduction.op, pass);
        case DType::int32:
            return run_integer<std::int32_t>(reduction.op, pass);
        case DType::uint32:
            return run_integer<std::uint32_t>(reduction.op, pass);
        case DType::int64:
            return run_integer<std::int64_t>(reduction.op, pass);
        case DType::uint64:
            return run_integer<std::uint64_t>(reduction.op, pass);
        case DType::boolean:
            return run_boolean(reduction.op, pass);
        default:
            break;
    }
    constexpr bool kIsDTypeOfThisFile = false;
    RUEDA_ASSERT(kIsDTypeOfThisFile);
}

}  // namespace rueda::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rueda::ops {
namespace {

HWY_EXPORT(integer_kernel);

}  // namespace

void reduce_integers(const Reduction& reduction, const Pass& pass) {
    HWY_DYNAMIC_DISPATCH(integer_kernel)(reduction, pass);
    if (pass.streaming) {
        hwy::FlushStream();
    }
}

}  // namespace rueda::ops
#endif  // HWY_ONCE
