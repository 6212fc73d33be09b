// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/terms/term_blocks.hpp"

namespace rueda::data {

/// The terms of a vocabulary in the order of their ids, and a hash table that finds the id of a text.
///
/// The hash table has open addressing with linear probing, and at most half of its slots are in use. A search reads a
/// slot (16 bytes) and then the bytes of the term, so in a large vocabulary it waits for two cache lines. find_block()
/// fetches these lines for all texts of a block at the same time.
///
/// Threads: any number of threads may call const functions while no thread adds a term.
class TermTable {
public:
    static constexpr std::size_t kLongestTerm = 65'535;  // in bytes; 16 bits hold the length of a term
    static constexpr std::int64_t kMostTerms = std::numeric_limits<std::int32_t>::max();
    static constexpr std::int32_t kUnknown = -1;

    explicit TermTable(std::uint64_t seed) : seed_(seed), slots_(kFewestSlots) {}

    [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(places_.size()); }
    [[nodiscard]] std::uint64_t hash(std::string_view text) const noexcept;
    /// Returns a hash of the terms and their order.
    [[nodiscard]] std::uint64_t digest() const noexcept { return digest_; }
    [[nodiscard]] std::string_view term(std::int64_t id) const noexcept {
        return at_place(places_[static_cast<std::size_t>(id)]);
    }
    /// Returns the id of a text, or kUnknown if the text is no term. `hash` is the hash of the text.
    [[nodiscard]] std::int32_t find(std::string_view text, std::uint64_t hash) const noexcept {
        return find_from(candidate(hash, hash), text, hash);
    }
    /// Finds the ids of at most kTermBlock texts, and puts the hashes of the texts into `hashes`.
    void find_block(std::span<const std::string_view> texts, std::span<std::int64_t> ids,
                    std::array<std::uint64_t, kTermBlock>& hashes) const noexcept;
    /// Adds a term of at most kLongestTerm bytes. The table must not have this term yet, and must have less than
    /// kMostTerms terms.
    void add(std::string_view text);

private:
    static constexpr std::size_t kFewestSlots = 16;
    struct Slot {
        std::uint32_t tag = 0;  ///< the upper half of the term's hash
        std::int32_t id = kUnknown;
        std::uint64_t place = 0;
    };
    static_assert(sizeof(Slot) == 16);

    [[nodiscard]] static std::uint32_t tag_of(std::uint64_t hash) noexcept {
        return static_cast<std::uint32_t>(hash >> 32);
    }
    /// Returns the term that a place stands for. The lower 16 bits of a place are the length of the term, and the upper
    /// bits are its offset in bytes_.
    [[nodiscard]] std::string_view at_place(std::uint64_t place) const noexcept {
        return {bytes_.data() + (place >> 16), place & 0xffff};
    }
    /// Returns the first slot at or behind `start` that is free or has the tag of `hash`.
    [[nodiscard]] std::size_t candidate(std::size_t start, std::uint64_t hash) const noexcept {
        const std::size_t mask = slots_.size() - 1;
        std::size_t at = start & mask;
        while (slots_[at].id != kUnknown && slots_[at].tag != tag_of(hash)) {
            at = (at + 1) & mask;
        }
        return at;
    }
    /// Continues a search at the slot that candidate() returned.
    [[nodiscard]] std::int32_t find_from(std::size_t at, std::string_view text, std::uint64_t hash) const noexcept {
        while (slots_[at].id != kUnknown && at_place(slots_[at].place) != text) {
            at = candidate(at + 1, hash);
        }
        return slots_[at].id;
    }
    void put(std::int32_t id);
    void grow();

    std::uint64_t seed_;
    std::uint64_t digest_ = 0;
    std::string bytes_;  ///< all terms, one after another
    std::vector<std::uint64_t> places_;
    std::vector<Slot> slots_;  ///< the number of slots is a power of two
};

}  // namespace rueda::data
