// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

// The names of the device kernels and their parameters. The code that launches kernels and the kernels themselves both
// include this header. Each kernel has one parameter, a struct that is passed by value. CUDA limits all parameters of a
// kernel to 4 KiB (drivers before CUDA 12.1).

#include <cstddef>
#include <cstdint>

#include "rueda/types.hpp"

namespace rueda::ops::cuda {

/// All kernels are compiled for blocks of this many threads.
inline constexpr std::uint32_t kThreads = 256;

/// The number of bytes that a thread loads or stores with one instruction, if the pointers are aligned to a multiple of
/// this number.
inline constexpr std::size_t kVectorBytes = 16;

/// The largest number of sources that one launch of rueda_reduce_… or of an adasum kernel reads.
inline constexpr std::uint32_t kMostSources = 16;

/// The largest number of tensors that one launch copies.
inline constexpr std::uint32_t kMostItems = 160;

/// The parameter of rueda_reduce_<dtype>. Element i of the destination becomes the combination of element i of all
/// sources, with the bits that ops::reduce() defines. The destination may be identical to a source.
struct ReduceArguments {
    const std::byte* sources[kMostSources];
    std::byte* destination;
    std::uint64_t count;  ///< number of elements
    double before;        ///< multiplies each source
    double after;         ///< multiplies the result: postscale, or postscale / divisor for an average of
                          ///< floating-point numbers
    std::uint32_t source_count;
    std::int32_t divisor;  ///< the divisor of an average of integers; other reductions do not use it
    ReduceOp op;           ///< every operation except adasum
};

/// One tensor of a batch. If `count` is zero, the two addresses may be zero, too.
struct BatchItem {
    const std::byte* source;
    std::byte* destination;
    std::uint64_t count;  ///< rueda_copy: number of bytes; other kernels: number of elements
};

/// The parameter of rueda_copy, rueda_scale_<dtype> and rueda_convert_<from>_<to>. Row y of the grid processes item y.
struct BatchArguments {
    BatchItem items[kMostItems];
    double factor;  ///< not used by rueda_copy
    std::uint32_t item_count;
};

/// The parameter of rueda_fill: writes `count` bytes. Byte i becomes byte i mod 8 of the pattern, in which byte 0 is
/// the lowest.
struct FillArguments {
    std::byte* destination;
    std::uint64_t count;
    std::uint64_t pattern;
};

/// The parameter of the adasum kernels (ops/cuda/README.md describes the four steps). A source that is null counts as
/// zeros. The four arrays are in device memory; WorkspaceOfAdasum computes their lengths.
struct AdasumArguments {
    const std::byte* sources[kMostSources];
    std::byte* destination;
    double* open;     ///< sums of blocks, indexed by part, block, pair and lane
    double* closed;   ///< sums of parts, indexed by part, pair and lane
    double* dots;     ///< indexed by pair
    double* weights;  ///< indexed by source
    std::uint64_t count;
    std::uint64_t blocks_of_part;  ///< the number of blocks of the largest part
    double factor;                 ///< multiplies the result
    std::uint32_t source_count;
    std::uint32_t parts;
    DType dtype;
};

static_assert(sizeof(BatchArguments) <= 4096 && sizeof(ReduceArguments) <= 4096 && sizeof(AdasumArguments) <= 4096);

/// Returns "rueda_reduce_float32", …
[[nodiscard]] constexpr const char* reduce_kernel(DType dtype) {
    constexpr const char* kNames[kDTypeCount] = {
        "rueda_reduce_uint8",   "rueda_reduce_int8",          "rueda_reduce_int32",      "rueda_reduce_int64",
        "rueda_reduce_float16", "rueda_reduce_bfloat16",      "rueda_reduce_float32",    "rueda_reduce_float64",
        "rueda_reduce_bool",    "rueda_reduce_int16",         "rueda_reduce_uint16",     "rueda_reduce_uint32",
        "rueda_reduce_uint64",  "rueda_reduce_float8_e4m3fn", "rueda_reduce_float8_e5m2"};
    return kNames[static_cast<std::size_t>(dtype)];
}

/// Returns the kernel that multiplies elements by a factor, or null for bool.
[[nodiscard]] constexpr const char* scale_kernel(DType dtype) {
    constexpr const char* kNames[kDTypeCount] = {
        "rueda_scale_uint8",   "rueda_scale_int8",          "rueda_scale_int32",
        "rueda_scale_int64",   "rueda_scale_float16",       "rueda_scale_bfloat16",
        "rueda_scale_float32", "rueda_scale_float64",       nullptr,
        "rueda_scale_int16",   "rueda_scale_uint16",        "rueda_scale_uint32",
        "rueda_scale_uint64",  "rueda_scale_float8_e4m3fn", "rueda_scale_float8_e5m2"};
    return kNames[static_cast<std::size_t>(dtype)];
}

/// Returns the position of a floating-point type of 16 bits or more in the tables below, or 4 for other types.
[[nodiscard]] constexpr std::size_t float_index(DType dtype) {
    return dtype == DType::float16    ? 0
           : dtype == DType::bfloat16 ? 1
           : dtype == DType::float32  ? 2
           : dtype == DType::float64  ? 3
                                      : 4;
}

/// Returns the kernel that converts between two different floating-point types of 16 bits or more, or null for other
/// pairs.
[[nodiscard]] constexpr const char* convert_kernel(DType from, DType to) {
    constexpr const char* kNames[5][5] = {
        {nullptr, "rueda_convert_float16_bfloat16", "rueda_convert_float16_float32", "rueda_convert_float16_float64"},
        {"rueda_convert_bfloat16_float16", nullptr, "rueda_convert_bfloat16_float32", "rueda_convert_bfloat16_float64"},
        {"rueda_convert_float32_float16", "rueda_convert_float32_bfloat16", nullptr, "rueda_convert_float32_float64"},
        {"rueda_convert_float64_float16", "rueda_convert_float64_bfloat16", "rueda_convert_float64_float32"}};
    return kNames[float_index(from)][float_index(to)];
}

inline constexpr const char* kCopyKernel = "rueda_copy";
inline constexpr const char* kFillKernel = "rueda_fill";
inline constexpr const char* kAdasumLanesKernel = "rueda_adasum_lanes";
inline constexpr const char* kAdasumWeightsKernel = "rueda_adasum_weights";

/// These functions return the kernels of adasum's first and last step, or null for a type that adasum cannot combine.
[[nodiscard]] constexpr const char* adasum_products_kernel(DType dtype) {
    constexpr const char* kNames[5] = {"rueda_adasum_products_float16", "rueda_adasum_products_bfloat16",
                                       "rueda_adasum_products_float32", "rueda_adasum_products_float64"};
    return kNames[float_index(dtype)];
}
[[nodiscard]] constexpr const char* adasum_sum_kernel(DType dtype) {
    constexpr const char* kNames[5] = {"rueda_adasum_sum_float16", "rueda_adasum_sum_bfloat16",
                                       "rueda_adasum_sum_float32", "rueda_adasum_sum_float64"};
    return kNames[float_index(dtype)];
}

}  // namespace rueda::ops::cuda
