// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

// How the threads of a kernel divide a tensor. If all pointers can be aligned together, most elements are processed in
// *vectors*: as many consecutive elements as fit into 16 bytes of the narrowest type. The elements before the first
// aligned vector and after the last one are *singles*, and each of them is processed alone. If the pointers cannot be
// aligned together, all elements are singles.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ops/cuda/device.hpp"
#include "ops/cuda/elements.hpp"
#include "ops/cuda/kernel_arguments.hpp"

namespace rueda::ops::cuda {

/// How many elements of this size fit into a vector.
constexpr std::uint32_t in_vector(std::size_t size) { return static_cast<std::uint32_t>(kVectorBytes / size); }

class Division {
public:
    /// `memory` points to elements of `size` bytes, the size of the narrowest type of the kernel. Vectors begin where
    /// this pointer is aligned.
    RUEDA_DEVICE Division(std::uint64_t count, const std::byte* memory, std::size_t size)
        : count_(count), length_(in_vector(size)) {
        const auto address = reinterpret_cast<std::uintptr_t>(memory);
        are_elements_aligned_ = address % size == 0;
        can_align_ = are_elements_aligned_;
        const std::uint64_t past = address % kVectorBytes / size;
        head_ = past == 0 ? 0 : length_ - past;
    }
    /// Takes a further pointer into account. If it cannot be aligned together with the first pointer, all elements
    /// become singles.
    RUEDA_DEVICE void include(const std::byte* memory, std::size_t size) {
        const auto address = reinterpret_cast<std::uintptr_t>(memory);
        are_elements_aligned_ = are_elements_aligned_ && address % size == 0;
        can_align_ = can_align_ && (address + head_ * size) % kVectorBytes == 0;
    }

    [[nodiscard]] RUEDA_DEVICE bool are_elements_aligned() const { return are_elements_aligned_; }
    [[nodiscard]] RUEDA_DEVICE std::uint64_t vectors() const {
        return can_align_ && count_ > head_ ? (count_ - head_) / length_ : 0;
    }
    [[nodiscard]] RUEDA_DEVICE std::uint64_t begin_of_vector(std::uint64_t vector) const {
        return head_ + vector * length_;
    }
    [[nodiscard]] RUEDA_DEVICE std::uint64_t singles() const { return count_ - vectors() * length_; }
    [[nodiscard]] RUEDA_DEVICE std::uint64_t place_of_single(std::uint64_t single) const {
        return single < head_ ? single : single + vectors() * length_;
    }

private:
    std::uint64_t count_;
    std::uint64_t head_;  // number of singles before the first vector
    std::uint32_t length_;
    bool are_elements_aligned_;  // whether each pointer is aligned to its elements
    bool can_align_;
};

/// The elements that a thread processes at a time.
struct Slot {
    std::uint64_t begin;
    bool are_elements_aligned;  ///< whether a single element is aligned; always true for a vector
};

/// Calls work(length, slot) for each of this thread's vectors, and then for each of its singles (single elements).
/// `length` is the number of elements in the slot, as an integral_constant.
template <std::uint32_t kLength, class Work>
RUEDA_DEVICE void for_each_slot(const Division& division, const Place& place, Work work) {
    const std::uint64_t vectors = division.vectors();
    for (std::uint64_t i = place.index; i < vectors; i += place.threads) {
        work(std::integral_constant<std::uint32_t, kLength>(), Slot{division.begin_of_vector(i), true});
    }
    const std::uint64_t singles = division.singles();
    for (std::uint64_t i = place.index; i < singles; i += place.threads) {
        work(std::integral_constant<std::uint32_t, 1>(),
             Slot{division.place_of_single(i), division.are_elements_aligned()});
    }
}

/// Loads the elements of a slot.
template <class Element, std::uint32_t kLength>
RUEDA_DEVICE void load_slot(typename Element::Lane (&values)[kLength], const std::byte* tensor, const Slot& slot) {
    using Bits = typename Element::Bits;
    const std::byte* const memory = tensor + slot.begin * sizeof(Bits);
    if constexpr (kLength == 1) {
        values[0] = Element::load(slot.are_elements_aligned ? load_aligned<Bits>(memory) : load_bytes<Bits>(memory));
    } else {
        constexpr std::uint32_t kInVector = in_vector(sizeof(Bits));
        RUEDA_UNROLL
        for (std::uint32_t first = 0; first < kLength; first += kInVector) {
            const Vector v = load_vector(memory + first * sizeof(Bits));
            RUEDA_UNROLL
            for (std::uint32_t i = 0; i < kInVector; ++i) {
                values[first + i] = Element::load(element_of<Bits>(v, i));
            }
        }
    }
}

/// Stores the elements of a slot. `Value` is a type that Element::store() converts.
template <class Element, class Value, std::uint32_t kLength>
RUEDA_DEVICE void store_slot(const Value (&values)[kLength], std::byte* tensor, const Slot& slot) {
    using Bits = typename Element::Bits;
    std::byte* const memory = tensor + slot.begin * sizeof(Bits);
    if constexpr (kLength == 1) {
        if (slot.are_elements_aligned) {
            store_aligned<Bits>(memory, Element::store(values[0]));
        } else {
            store_bytes<Bits>(memory, Element::store(values[0]));
        }
    } else {
        constexpr std::uint32_t kInVector = in_vector(sizeof(Bits));
        RUEDA_UNROLL
        for (std::uint32_t first = 0; first < kLength; first += kInVector) {
            Vector v{{0, 0, 0, 0}};
            RUEDA_UNROLL
            for (std::uint32_t i = 0; i < kInVector; ++i) {
                set_element<Bits>(v, i, Element::store(values[first + i]));
            }
            store_vector(memory + first * sizeof(Bits), v);
        }
    }
}

}  // namespace rueda::ops::cuda
