// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "ops/exact_sums.hpp"

#include <cstdint>
#include <cstring>

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
            // the upper half of the value; if the type is signed, this half has the sign
            parts[0] = static_cast<std::int64_t>(value >> kHalf);
            parts[1] = static_cast<std::int64_t>(static_cast<std::uint32_t>(value));
        } else {
            parts[0] = +value;  // the unary plus promotes a small type to int, with its sign
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

}  // namespace

bool needs_words(const Reduction& reduction) {
    return reduction.op == ReduceOp::average && is_integer(reduction.dtype);
}

std::size_t words_of(DType dtype) { return size_of(dtype) == sizeof(std::int64_t) ? 2 : 1; }

void to_words(const Reduction& reduction, const std::byte* elements, std::byte* words, std::size_t count) {
    with_integer(reduction.dtype, [&]<class T>(T) { to_words_of<T>(reduction.prescale, elements, words, count); });
}

void average_words(const Reduction& reduction, const std::byte* words, std::byte* elements, std::size_t count) {
    with_integer(reduction.dtype, [&]<class T>(T) { average_words_of<T>(reduction, words, elements, count); });
}

}  // namespace rueda::ops
