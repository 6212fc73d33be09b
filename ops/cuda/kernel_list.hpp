// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

// The list of all kernels. RUEDA_CUDA_KERNELS(X) expands X(name, type of the parameter, body) for each kernel.
// kernels.cu turns the list into device kernels, host_kernels.cpp into functions. A body is in parentheses, because its
// template arguments contain commas.

#include "ops/cuda/adasum_body.hpp"
#include "ops/cuda/batch_body.hpp"
#include "ops/cuda/reduce_body.hpp"

// clang-format off
#define RUEDA_CUDA_KERNELS(X)                                                                   \
    X(rueda_reduce_uint8, ReduceArguments, (reduce<Integer<std::uint8_t>>))                     \
    X(rueda_reduce_int8, ReduceArguments, (reduce<Integer<std::int8_t>>))                       \
    X(rueda_reduce_int16, ReduceArguments, (reduce<Integer<std::int16_t>>))                     \
    X(rueda_reduce_uint16, ReduceArguments, (reduce<Integer<std::uint16_t>>))                   \
    X(rueda_reduce_int32, ReduceArguments, (reduce<Integer<std::int32_t>>))                     \
    X(rueda_reduce_uint32, ReduceArguments, (reduce<Integer<std::uint32_t>>))                   \
    X(rueda_reduce_int64, ReduceArguments, (reduce<Integer<std::int64_t>>))                     \
    X(rueda_reduce_uint64, ReduceArguments, (reduce<Integer<std::uint64_t>>))                   \
    X(rueda_reduce_bool, ReduceArguments, (reduce<Boolean>))                                    \
    X(rueda_reduce_float16, ReduceArguments, (reduce<Float16>))                                 \
    X(rueda_reduce_bfloat16, ReduceArguments, (reduce<BFloat16>))                               \
    X(rueda_reduce_float8_e4m3fn, ReduceArguments, (reduce<Float8E4M3>))                        \
    X(rueda_reduce_float8_e5m2, ReduceArguments, (reduce<Float8E5M2>))                          \
    X(rueda_reduce_float32, ReduceArguments, (reduce<Float32>))                                 \
    X(rueda_reduce_float64, ReduceArguments, (reduce<Float64>))                                 \
    X(rueda_copy, BatchArguments, (copy))                                                       \
    X(rueda_scale_uint8, BatchArguments, (scale<Integer<std::uint8_t>>))                        \
    X(rueda_scale_int8, BatchArguments, (scale<Integer<std::int8_t>>))                          \
    X(rueda_scale_int16, BatchArguments, (scale<Integer<std::int16_t>>))                        \
    X(rueda_scale_uint16, BatchArguments, (scale<Integer<std::uint16_t>>))                      \
    X(rueda_scale_int32, BatchArguments, (scale<Integer<std::int32_t>>))                        \
    X(rueda_scale_uint32, BatchArguments, (scale<Integer<std::uint32_t>>))                      \
    X(rueda_scale_int64, BatchArguments, (scale<Integer<std::int64_t>>))                        \
    X(rueda_scale_uint64, BatchArguments, (scale<Integer<std::uint64_t>>))                      \
    X(rueda_scale_float16, BatchArguments, (scale<Float16>))                                    \
    X(rueda_scale_bfloat16, BatchArguments, (scale<BFloat16>))                                  \
    X(rueda_scale_float8_e4m3fn, BatchArguments, (scale<Float8E4M3>))                           \
    X(rueda_scale_float8_e5m2, BatchArguments, (scale<Float8E5M2>))                             \
    X(rueda_scale_float32, BatchArguments, (scale<Float32>))                                    \
    X(rueda_scale_float64, BatchArguments, (scale<Float64>))                                    \
    X(rueda_convert_float16_bfloat16, BatchArguments, (convert<Float16, BFloat16>))             \
    X(rueda_convert_float16_float32, BatchArguments, (convert<Float16, Float32>))               \
    X(rueda_convert_float16_float64, BatchArguments, (convert<Float16, Float64>))               \
    X(rueda_convert_bfloat16_float16, BatchArguments, (convert<BFloat16, Float16>))             \
    X(rueda_convert_bfloat16_float32, BatchArguments, (convert<BFloat16, Float32>))             \
    X(rueda_convert_bfloat16_float64, BatchArguments, (convert<BFloat16, Float64>))             \
    X(rueda_convert_float32_float16, BatchArguments, (convert<Float32, Float16>))               \
    X(rueda_convert_float32_bfloat16, BatchArguments, (convert<Float32, BFloat16>))             \
    X(rueda_convert_float32_float64, BatchArguments, (convert<Float32, Float64>))               \
    X(rueda_convert_float64_float16, BatchArguments, (convert<Float64, Float16>))               \
    X(rueda_convert_float64_bfloat16, BatchArguments, (convert<Float64, BFloat16>))             \
    X(rueda_convert_float64_float32, BatchArguments, (convert<Float64, Float32>))               \
    X(rueda_fill, FillArguments, (fill))                                                        \
    X(rueda_adasum_products_float16, AdasumArguments, (adasum_products<Float16>))               \
    X(rueda_adasum_products_bfloat16, AdasumArguments, (adasum_products<BFloat16>))             \
    X(rueda_adasum_products_float32, AdasumArguments, (adasum_products<Float32>))               \
    X(rueda_adasum_products_float64, AdasumArguments, (adasum_products<Float64>))               \
    X(rueda_adasum_lanes, AdasumArguments, (adasum_lanes))                                      \
    X(rueda_adasum_weights, AdasumArguments, (adasum_weights))                                  \
    X(rueda_adasum_sum_float16, AdasumArguments, (adasum_sum<Float16>))                         \
    X(rueda_adasum_sum_bfloat16, AdasumArguments, (adasum_sum<BFloat16>))                       \
    X(rueda_adasum_sum_float32, AdasumArguments, (adasum_sum<Float32>))                         \
    X(rueda_adasum_sum_float64, AdasumArguments, (adasum_sum<Float64>))
// clang-format on
