// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// This file is compiled once per SIMD target: foreach_target.h includes it again with other values of HWY_TARGET.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/reduce_half_floats.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "base/assert.hpp"
#include "ops/pass.hpp"
#include "ops/reduce_kernel-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rueda::ops::HWY_NAMESPACE {

void half_float_kernel(const Reduction& reduction, const Pass& pass) {
    switch (reduction.dtype) {
        case DType::float16:
            return run_float<Float16>(reduction, pass);
        case DType::bfloat16:
            return run_float<BFloat16>(reduction, pass);
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

HWY_EXPORT(half_float_kernel);

}  // namespace

void reduce_half_floats(const Reduction& reduction, const Pass& pass) {
    HWY_DYNAMIC_DISPATCH(half_float_kernel)(reduction, pass);
    if (pass.streaming) {
        hwy::FlushStream();
    }
}

}  // namespace rueda::ops
#endif  // HWY_ONCE
