// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace rueda {

/// Element types that Rueda moves and reduces. The numbers are part of the C interface (rueda.h). New types get the
/// next free number.
enum class DType : std::int32_t {
    uint8 = 0,
    int8 = 1,
    int32 = 2,
    int64 = 3,
    float16 = 4,
    bfloat16 = 5,
    float32 = 6,
    float64 = 7,
    boolean = 8,  ///< one byte per element; 0 is false; messages call this type "bool". It can be reduced only with
                  ///< min, max and product; the results are 0 or 1
    int16 = 9,
    uint16 = 10,
    uint32 = 11,
    uint64 = 12,
    float8_e4m3fn = 13,  ///< 4 bits of exponent, 3 of mantissa; the largest value is 448, and there is no infinity
    float8_e5m2 = 14,    ///< 5 bits of exponent, 2 of mantissa; the largest finite value is 57344
};

/// The number of element types. Values of DType are 0 … kDTypeCount − 1.
inline constexpr std::int32_t kDTypeCount = 15;

/// The ways in which the values of several ranks can be combined. The numbers are those of Horovod's Python constants.
enum class ReduceOp : std::int32_t {
    average = 0,
    sum = 1,
    adasum = 2,
    min = 3,
    max = 4,
    product = 5,
};

/// The format in which a tensor's values travel between hosts (docs/compression.md). The numbers are part of the C
/// interface.
enum class Compression : std::int32_t {
    none = 0,  ///< the call names no format: the setting RUEDA_COMPRESSION decides. Without this setting, values are
               ///< not changed
    fp16 = 1,  ///< float32 and float64 travel as float16
    bf16 = 2,  ///< float32 and float64 travel as bfloat16
};

/// Returns "none", "fp16" or "bf16".
[[nodiscard]] constexpr const char* name_of(Compression compression) noexcept {
    switch (compression) {
        case Compression::none:
            return "none";
        case Compression::fp16:
            return "fp16";
        case Compression::bf16:
            return "bf16";
    }
    return "unknown compression";
}

/// The memory in which tensors are. The numbers are part of the C interface.
enum class DeviceType : std::int32_t {
    cpu = 0,
    cuda = 1,  ///< the memory of an NVIDIA GPU
};

/// Returns "the CPU" or "a GPU".
[[nodiscard]] constexpr const char* name_of(DeviceType type) noexcept {
    switch (type) {
        case DeviceType::cpu:
            return "the CPU";
        case DeviceType::cuda:
            return "a GPU";
    }
    return "an unknown device";
}

/// Returns the size of one element in bytes.
[[nodiscard]] constexpr std::size_t size_of(DType dtype) noexcept {
    switch (dtype) {
        case DType::boolean:
        case DType::uint8:
        case DType::int8:
        case DType::float8_e4m3fn:
        case DType::float8_e5m2:
            return 1;
        case DType::int16:
        case DType::uint16:
        case DType::float16:
        case DType::bfloat16:
            return 2;
        case DType::int32:
        case DType::uint32:
        case DType::float32:
            return 4;
        case DType::int64:
        case DType::uint64:
        case DType::float64:
            return 8;
    }
    return 0;
}

/// Returns the name of the type: "float32", "int64", …
[[nodiscard]] constexpr const char* name_of(DType dtype) noexcept {
    switch (dtype) {
        case DType::uint8:
            return "uint8";
        case DType::int8:
            return "int8";
        case DType::int32:
            return "int32";
        case DType::int64:
            return "int64";
        case DType::float16:
            return "float16";
        case DType::bfloat16:
            return "bfloat16";
        case DType::float32:
            return "float32";
        case DType::float64:
            return "float64";
        case DType::boolean:
            return "bool";
        case DType::int16:
            return "int16";
        case DType::uint16:
            return "uint16";
        case DType::uint32:
            return "uint32";
        case DType::uint64:
            return "uint64";
        case DType::float8_e4m3fn:
            return "float8_e4m3fn";
        case DType::float8_e5m2:
            return "float8_e5m2";
    }
    return "unknown dtype";
}

/// Returns the name of the operation: "average", "sum", …
[[nodiscard]] constexpr const char* name_of(ReduceOp op) noexcept {
    switch (op) {
        case ReduceOp::average:
            return "average";
        case ReduceOp::sum:
            return "sum";
        case ReduceOp::adasum:
            return "adasum";
        case ReduceOp::min:
            return "min";
        case ReduceOp::max:
            return "max";
        case ReduceOp::product:
            return "product";
    }
    return "unknown reduce operation";
}

namespace detail {
/// The largest number of elements: no memory can hold more.
inline constexpr std::uint64_t kMostElements = std::uint64_t{1} << 60;

/// Returns the number of elements of a tensor with these extents. The number is 1 if there are no extents, and 0 if at
/// least one extent is 0. Returns nothing if an extent is negative, or if the number is larger than `most`. All code in
/// Rueda that multiplies extents calls this function, so that all parts agree.
[[nodiscard]] constexpr std::optional<std::uint64_t> count_of_elements(std::span<const std::int64_t> extents,
                                                                       std::uint64_t most = kMostElements) noexcept {
    bool is_empty = false;
    for (const std::int64_t extent : extents) {
        if (extent < 0) {
            return std::nullopt;
        }
        is_empty = is_empty || extent == 0;
    }
    if (is_empty) {
        return 0;
    }
    std::uint64_t count = 1;
    for (const std::int64_t extent : extents) {
        if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(extent), &count) || count > most) {
            return std::nullopt;
        }
    }
    return count;
}
}  // namespace detail

/// Returns the dtype of a C++ arithmetic type. `dtype_of<float>` is DType::float32. A type without a dtype does not
/// compile.
template <class T>
requires(std::is_arithmetic_v<T>) [[nodiscard]] consteval DType dtype_for() {
    if constexpr (std::is_same_v<T, float>) {
        return DType::float32;
    } else if constexpr (std::is_same_v<T, double>) {
        return DType::float64;
    } else if constexpr (std::is_same_v<T, bool>) {
        static_assert(sizeof(bool) == 1);
        return DType::boolean;
    } else if constexpr (std::is_integral_v<T> && sizeof(T) == 1) {
        return std::is_signed_v<T> ? DType::int8 : DType::uint8;
    } else if constexpr (std::is_integral_v<T> && sizeof(T) == 2) {
        return std::is_signed_v<T> ? DType::int16 : DType::uint16;
    } else if constexpr (std::is_integral_v<T> && sizeof(T) == 4) {
        return std::is_signed_v<T> ? DType::int32 : DType::uint32;
    } else {
        static_assert(std::is_integral_v<T> && sizeof(T) == 8, "Rueda has no dtype for this type");
        return std::is_signed_v<T> ? DType::int64 : DType::uint64;
    }
}
template <class T>
inline constexpr DType dtype_of = dtype_for<std::remove_cv_t<T>>();

}  // namespace rueda
