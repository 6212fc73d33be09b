// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

// The kernels that combine no tensors: rueda_copy, rueda_scale_<dtype>, rueda_convert_<from>_<to> and rueda_fill. All
// except rueda_fill process a batch of items. Each item has its own addresses of source and destination, so these
// kernels can also pack and unpack tensors.

#include "ops/cuda/division.hpp"
#include "ops/cuda/elements.hpp"
#include "ops/cuda/reduce_body.hpp"

namespace rueda::ops::cuda {

template <class Unit>
RUEDA_DEVICE void copy_unit(std::byte* destination, const std::byte* source) {
    if constexpr (std::is_same_v<Unit, Vector>) {
        store_vector(destination, load_vector(source));
    } else {
        store_aligned(destination, load_aligned<Unit>(source));
    }
}

/// Copies as many aligned units as possible. Before the first and after the last of these units, copies single bytes.
template <class Unit>
RUEDA_DEVICE void copy_units(std::byte* destination, const std::byte* source, std::uint64_t bytes, const Place& place) {
    const std::uint64_t past = reinterpret_cast<std::uintptr_t>(destination) % sizeof(Unit);
    const std::uint64_t to_alignment = past == 0 ? 0 : sizeof(Unit) - past;
    const std::uint64_t head = to_alignment < bytes ? to_alignment : bytes;
    const std::uint64_t units = (bytes - head) / sizeof(Unit);
    for (std::uint64_t unit = place.index; unit < units; unit += place.threads) {
        const std::uint64_t offset = head + unit * sizeof(Unit);
        copy_unit<Unit>(destination + offset, source + offset);
    }
    const std::uint64_t singles = bytes - units * sizeof(Unit);
    for (std::uint64_t single = place.index; single < singles; single += place.threads) {
        const std::uint64_t offset = single < head ? single : single + units * sizeof(Unit);
        copy_unit<std::uint8_t>(destination + offset, source + offset);
    }
}

/// Copies bytes unchanged, in the largest units that are aligned at both addresses.
RUEDA_DEVICE void copy(const BatchArguments& arguments, const Place& place) {
    if (place.row >= arguments.item_count) {
        return;
    }
    const std::byte* const source = arguments.items[place.row].source;
    std::byte* const destination = arguments.items[place.row].destination;
    const std::uint64_t bytes = arguments.items[place.row].count;
    const auto difference = reinterpret_cast<std::uintptr_t>(source) - reinterpret_cast<std::uintptr_t>(destination);
    if (difference % sizeof(Vector) == 0) {
        copy_units<Vector>(destination, source, bytes, place);
    } else if (difference % 8 == 0) {
        copy_units<std::uint64_t>(destination, source, bytes, place);
    } else if (difference % 4 == 0) {
        copy_units<std::uint32_t>(destination, source, bytes, place);
    } else if (difference % 2 == 0) {
        copy_units<std::uint16_t>(destination, source, bytes, place);
    } else {
        copy_units<std::uint8_t>(destination, source, bytes, place);
    }
}

/// Converts and multiplies the elements of an item. The multiplication is computed in the type `Value`.
template <class From, class To, class Value>
RUEDA_DEVICE void convert_item(const BatchArguments& arguments, const Place& place) {
    if (place.row >= arguments.item_count) {
        return;
    }
    constexpr std::size_t kFrom = sizeof(typename From::Bits);
    constexpr std::size_t kTo = sizeof(typename To::Bits);
    constexpr std::size_t kNarrow = kFrom < kTo ? kFrom : kTo;
    const std::byte* const source = arguments.items[place.row].source;
    std::byte* const destination = arguments.items[place.row].destination;
    Division division(arguments.items[place.row].count, kFrom < kTo ? source : destination, kNarrow);
    division.include(source, kFrom);
    division.include(destination, kTo);
    for_each_slot<in_vector(kNarrow)>(division, place, [&](auto length, const Slot& slot) RUEDA_INLINED {
        constexpr std::uint32_t kLength = decltype(length)::value;
        typename From::Lane loaded[kLength];
        load_slot<From>(loaded, source, slot);
        Value values[kLength];
        RUEDA_UNROLL
        for (std::uint32_t i = 0; i < kLength; ++i) {
            values[i] = static_cast<Value>(loaded[i]);
        }
        multiply(values, arguments.factor);
        store_slot<To>(values, destination, slot);
    });
}

template <class Element>
RUEDA_DEVICE void scale(const BatchArguments& arguments, const Place& place) {
    convert_item<Element, Element, typename Element::Lane>(arguments, place);
}

/// Multiplies by the factor in the wider of the two types (16-bit types are computed in float32), and rounds once.
template <class From, class To>
RUEDA_DEVICE void convert(const BatchArguments& arguments, const Place& place) {
    using Wider = std::conditional_t<(sizeof(typename From::Lane) > sizeof(typename To::Lane)), typename From::Lane,
                                     typename To::Lane>;
    convert_item<From, To, Wider>(arguments, place);
}

RUEDA_DEVICE std::uint8_t pattern_byte(std::uint64_t pattern, std::uint64_t i) {
    return static_cast<std::uint8_t>(pattern >> (8 * (i % 8)));
}

/// Every aligned vector of the destination gets the same 16 bytes, because the pattern repeats after 8 bytes.
RUEDA_DEVICE void fill(const FillArguments& arguments, const Place& place) {
    const std::uint64_t past = reinterpret_cast<std::uintptr_t>(arguments.destination) % kVectorBytes;
    const std::uint64_t to_alignment = past == 0 ? 0 : kVectorBytes - past;
    const std::uint64_t head = to_alignment < arguments.count ? to_alignment : arguments.count;
    const std::uint64_t vectors = (arguments.count - head) / kVectorBytes;
    std::uint64_t turned = 0;  // the pattern, rotated so that its first byte belongs at the start of the first vector
    RUEDA_UNROLL
    for (std::uint64_t i = 0; i < 8; ++i) {
        turned |= static_cast<std::uint64_t>(pattern_byte(arguments.pattern, head + i)) << (8 * i);
    }
    const auto low = static_cast<std::uint32_t>(turned);
    const auto high = static_cast<std::uint32_t>(turned >> 32);
    const Vector whole{{low, high, low, high}};
    for (std::uint64_t v = place.index; v < vectors; v += place.threads) {
        store_vector(arguments.destination + head + v * kVectorBytes, whole);
    }
    const std::uint64_t singles = arguments.count - vectors * kVectorBytes;
    for (std::uint64_t single = place.index; single < singles; single += place.threads) {
        const std::uint64_t offset = single < head ? single : single + vectors * kVectorBytes;
        store_aligned(arguments.destination + offset, pattern_byte(arguments.pattern, offset));
    }
}

}  // namespace rueda::ops::cuda
