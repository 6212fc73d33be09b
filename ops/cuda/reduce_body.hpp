// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

// The kernels rueda_reduce_<dtype>. Each thread combines a few elements of all sources in registers, in the order of
// the sources, and stores the result. The operations on an element and their order do not depend on the grid or the
// alignment. So the bits of the result do not depend on them either.

#include "ops/cuda/division.hpp"
#include "ops/cuda/elements.hpp"
#include "ops/cuda/integer_sums.hpp"

namespace rueda::ops::cuda {

// The operations on two elements. min and max give NaN if one operand is NaN, and −0 is less than +0. For equal
// numbers, min computes the `or` of their bits and max the `and`. This changes nothing unless the numbers are +0 and
// −0: then `or` gives −0, and `and` gives +0.

RUEDA_DEVICE float either_bits(float a, float b) {
    return bits_as<float>(bits_as<std::uint32_t>(a) | bits_as<std::uint32_t>(b));
}
RUEDA_DEVICE float common_bits(float a, float b) {
    return bits_as<float>(bits_as<std::uint32_t>(a) & bits_as<std::uint32_t>(b));
}
RUEDA_DEVICE double either_bits(double a, double b) {
    return bits_as<double>(bits_as<std::uint64_t>(a) | bits_as<std::uint64_t>(b));
}
RUEDA_DEVICE double common_bits(double a, double b) {
    return bits_as<double>(bits_as<std::uint64_t>(a) & bits_as<std::uint64_t>(b));
}

template <class T>
RUEDA_DEVICE T lower_of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
        if (is_nan(a)) {
            return a;
        }
        if (a == b) {
            return either_bits(a, b);
        }
    }
    return a < b ? a : b;
}
template <class T>
RUEDA_DEVICE T higher_of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
        if (is_nan(a)) {
            return a;
        }
        if (a == b) {
            return common_bits(a, b);
        }
    }
    return a > b ? a : b;
}

/// Sums and products of integers are computed in an unsigned type, so that they wrap. The unsigned type has at least 32
/// bits: smaller types would be promoted to int, whose products may overflow.
template <class T>
using Wrapping = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <class T>
RUEDA_DEVICE T sum_of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
        return a + b;
    } else {
        return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    }
}
template <class T>
RUEDA_DEVICE T product_of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
        return a * b;
    } else {
        return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
    }
}

/// Combines the elements of two slots. The branches here select the operation, which is the same for all threads. This
/// costs one branch for each slot and source, but it saves a copy of the kernel for each operation.
template <class T, std::uint32_t kLength>
RUEDA_DEVICE void combine(ReduceOp op, T (&all)[kLength], const T (&one)[kLength]) {
    if (op == ReduceOp::min) {
        RUEDA_UNROLL
        for (std::uint32_t i = 0; i < kLength; ++i) {
            all[i] = lower_of(all[i], one[i]);
        }
    } else if (op == ReduceOp::max) {
        RUEDA_UNROLL
        for (std::uint32_t i = 0; i < kLength; ++i) {
            all[i] = higher_of(all[i], one[i]);
        }
    } else if (op == ReduceOp::product) {
        RUEDA_UNROLL
        for (std::uint32_t i = 0; i < kLength; ++i) {
            all[i] = product_of(all[i], one[i]);
        }
    } else {
        RUEDA_UNROLL
        for (std::uint32_t i = 0; i < kLength; ++i) {
            all[i] = sum_of(all[i], one[i]);
        }
    }
}

/// Multiplies by a factor: floating-point numbers in their own arithmetic, integers in double with truncation.
template <class T, std::uint32_t kLength>
RUEDA_DEVICE void multiply(T (&values)[kLength], double factor) {
    if (factor == 1.0) {
        return;
    }
    RUEDA_UNROLL
    for (std::uint32_t i = 0; i < kLength; ++i) {
        if constexpr (std::is_floating_point_v<T>) {
            values[i] *= static_cast<T>(factor);
        } else {
            values[i] = truncated<T>(static_cast<double>(values[i]) * factor);
        }
    }
}

template <class Element>
RUEDA_DEVICE Division division_of(const ReduceArguments& arguments) {
    constexpr std::size_t kSize = sizeof(typename Element::Bits);
    Division division(arguments.count, arguments.destination, kSize);
    for (std::uint32_t s = 0; s < arguments.source_count; ++s) {
        division.include(arguments.sources[s], kSize);
    }
    return division;
}

template <class Element, std::uint32_t kLength>
RUEDA_DEVICE void average_integers(const ReduceArguments& arguments, const Slot& slot) {
    using T = typename Element::Lane;
    SumFor<T> sums[kLength] = {};
    T values[kLength];
    for (std::uint32_t s = 0; s < arguments.source_count; ++s) {
        load_slot<Element>(values, arguments.sources[s], slot);
        multiply(values, arguments.before);
        RUEDA_UNROLL
        for (std::uint32_t i = 0; i < kLength; ++i) {
            add_to(sums[i], values[i]);
        }
    }
    RUEDA_UNROLL
    for (std::uint32_t i = 0; i < kLength; ++i) {
        values[i] = average_of<T>(sums[i], arguments.after, arguments.divisor);
    }
    store_slot<Element>(values, arguments.destination, slot);
}

template <class Element, std::uint32_t kLength>
RUEDA_DEVICE void combine_sources(const ReduceArguments& arguments, const Slot& slot) {
    using T = typename Element::Lane;
    T all[kLength];
    load_slot<Element>(all, arguments.sources[0], slot);
    multiply(all, arguments.before);
    for (std::uint32_t s = 1; s < arguments.source_count; ++s) {
        T one[kLength];
        load_slot<Element>(one, arguments.sources[s], slot);
        multiply(one, arguments.before);
        combine(arguments.op, all, one);
    }
    multiply(all, arguments.after);
    store_slot<Element>(all, arguments.destination, slot);
}

template <class Element>
RUEDA_DEVICE void reduce(const ReduceArguments& arguments, const Place& place) {
    constexpr std::uint32_t kLength = in_vector(sizeof(typename Element::Bits));
    constexpr bool kIsInteger = std::is_integral_v<typename Element::Lane> && !std::is_same_v<Element, Boolean>;
    for_each_slot<kLength>(division_of<Element>(arguments), place, [&](auto length, const Slot& slot) RUEDA_INLINED {
        if constexpr (kIsInteger) {
            if (arguments.op == ReduceOp::average) {
                average_integers<Element, decltype(length)::value>(arguments, slot);
                return;
            }
        }
        combine_sources<Element, decltype(length)::value>(arguments, slot);
    });
}

}  // namespace rueda::ops::cuda
