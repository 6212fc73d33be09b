// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "ops/exact_sums.hpp"

#include <cstdint>
#include <cstring>

#include "base/assert.hpp"
#include "ops/integers-inl.hpp"

namespace rueda::ops {
namespace {

constexpr int kHalf = 32;

template <class T>
constexpr std::size_t kWords = sizeof(T) == 8 ? 2 : 1;

template <class T>
void to_words_of(double prescale, const std::byte* elements, std::byte* words, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        T value;
        std::memcpy(&value, elements + i * sizeof(T), sizeof(T));
        if (prescale != 1.0) {
            value = truncated<T>(static_cast<double>(value) * prescale);
        }
        std::int64_t parts[kWords<T>];
        if constexpr (kWords<T> == 2) {
            parts[0] = value >> kHalf;
            parts[1] = value - (parts[0] << kHalf);
        } else {
            parts[0] = +value;  // of a small type as int: its sign goes along
        }
        std::memcpy(words + i * sizeof(parts), parts, sizeof(parts));
    }
}

template <class T>
void average_words_of(const Reduction& reduction, const std::byte* words, std::byte* elements, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        std::int64_t parts[kWords<T>];
        std::memcpy(parts, words + i * sizeof(parts), sizeof(parts));
        T value;
        if constexpr (kWords<T> == 2) {
            value = average_of<T>(Wide<T>{parts[0]} * (Wide<T>{1} << kHalf) + parts[1], reduction);
        } else {
            value = average_of<T>(static_cast<Wide<T>>(parts[0]), reduction);
        }
        std::memcpy(elements + i * sizeof(T), &value, sizeof(T));
    }
}

/// Calls f with a value of the integer type.
template <class F>
void with_integer(DType dtype, F&& f) {
    switch (dtype) {
        case DType::uint8:
            return f(std::uint8_t{});
        case DType::int8:
            return f(std::int8_t{});
        case DType::int32:
            return f(std::int32_t{});
        case DType::int64:
            return f(std::int64_t{});
        case DType::float16:
        case DType::bfloat16:
        case DType::float32:
        case DType::float64:
            break;
    }
    constexpr bool kIsIntegerDType = false;
    RUEDA_ASSERT(kIsIntegerDType);
}

}  // namespace

bool needs_words(const Reduction& reduction) {
    return reduction.op == ReduceOp::average && (reduction.dtype == DType::uint8 || reduction.dtype == DType::int8 ||
                                                 reduction.dtype == DType::int32 || reduction.dtype == DType::int64);
}

std::size_t words_of(DType dtype) { return dtype == DType::int64 ? 2 : 1; }

void to_words(const Reduction& reduction, const std::byte* elements, std::byte* words, std::size_t count) {
    with_integer(reduction.dtype, [&]<class T>(T) { to_words_of<T>(reduction.prescale, elements, words, count); });
}

void average_words(const Reduction& reduction, const std::byte* words, std::byte* elements, std::size_t count) {
    with_integer(reduction.dtype, [&]<class T>(T) { average_words_of<T>(reduction, words, elements, count); });
}

}  // namespace rueda::ops
