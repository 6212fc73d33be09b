// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/negotiation/layout.hpp"

namespace rueda::core {

/// 128 bits of a hash of the name. Two names with equal bits would be treated as one name.
using RefusalKey = std::array<std::uint64_t, 2>;
[[nodiscard]] RefusalKey refusal_key(std::string_view name);

/// Remembers names for which no slot was free. Every member's operation with such a name must fail in the same way,
/// although the members announce it at different times. The n-th refusal of one member corresponds to the n-th refusal
/// of every other member. Therefore the announcement of a member is refused if another member has more refusals of this
/// name. This holds even if a slot has become free. When all members have equally many refusals, the table forgets the
/// name.
///
/// The table does not grow: add() returns false if it is full. It uses open addressing with linear probing and no
/// tombstones. The table's size limits all loops, so they end even if a faulty rank damaged the table. Threads: only
/// the registrar.
template <class Atomics>
class Refusals {
public:
    explicit Refusals(NegotiationMemory<Atomics> memory) : memory_(memory) {}

    [[nodiscard]] bool empty() const { return memory_.header().refusals == 0; }

    /// If another member was refused more often than `member`, this function refuses `member` too: it counts this
    /// refusal, and returns the number of slots at the first refusal. Otherwise it returns nothing.
    std::optional<std::uint32_t> settle(const RefusalKey& key, std::uint32_t member) {
        const std::uint32_t bucket = find(key);
        const Refusal& refusal = memory_.refusal(bucket);
        if (refusal.slots == 0 || memory_.refused(bucket, member) >= refusal.most) {
            return std::nullopt;
        }
        const std::uint32_t slots = refusal.slots;
        ++memory_.refused(bucket, member);
        forget_if_settled(bucket);
        return slots;
    }

    /// Records one more refusal of `member`. Call this only if settle() returned nothing. Returns false and changes
    /// nothing if the table is full.
    [[nodiscard]] bool add(const RefusalKey& key, std::uint32_t member, std::uint32_t slots) {
        const std::uint32_t bucket = find(key);
        Refusal& refusal = memory_.refusal(bucket);
        if (refusal.slots == 0) {
            if (memory_.header().refusals >= memory_.extent().refusals()) {
                return false;
            }
            ++memory_.header().refusals;
            refusal = {.key = {key[0], key[1]}, .slots = slots};
        }
        refusal.most = ++memory_.refused(bucket, member);
        forget_if_settled(bucket);
        return true;
    }

    /// Forgets all names. Call this when a join ends, because every announced operation has ended then.
    void clear() {
        for (std::uint32_t bucket = 0; bucket <= mask() && !empty(); ++bucket) {
            if (memory_.refusal(bucket).slots != 0) {
                erase(bucket--);  // look at this bucket again: erase() may have moved another entry into it
            }
        }
    }

private:
    [[nodiscard]] std::uint32_t mask() const { return memory_.extent().refusal_buckets() - 1; }
    [[nodiscard]] std::uint32_t home(const Refusal& refusal) const {
        return static_cast<std::uint32_t>(refusal.key[0]) & mask();
    }

    /// Returns the bucket with the key, or the free bucket that is next in the key's probe sequence. At least half of
    /// the buckets are free, so the search always ends.
    [[nodiscard]] std::uint32_t find(const RefusalKey& key) const {
        std::uint32_t i = static_cast<std::uint32_t>(key[0]) & mask();
        for (std::uint32_t looked = 0; looked < mask(); ++looked, i = (i + 1) & mask()) {
            const Refusal& refusal = memory_.refusal(i);
            if (refusal.slots == 0 || (refusal.key[0] == key[0] && refusal.key[1] == key[1])) {
                break;
            }
        }
        return i;
    }

    void forget_if_settled(std::uint32_t bucket) {
        for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
            if (memory_.refused(bucket, member) != memory_.refusal(bucket).most) {
                return;
            }
        }
        erase(bucket);
    }

    /// Removes the entry in the bucket `gap`. Later entries of the same probe sequence move up, so that a search still
    /// finds their names.
    void erase(std::uint32_t gap) {
        --memory_.header().refusals;
        std::uint32_t i = (gap + 1) & mask();
        for (std::uint32_t looked = 0; looked < mask() && memory_.refusal(i).slots != 0;
             ++looked, i = (i + 1) & mask()) {
            const std::uint32_t distance_from_home = (i - home(memory_.refusal(i))) & mask();
            if (distance_from_home >= ((i - gap) & mask())) {
                move(i, gap);
                gap = i;
            }
        }
        memory_.refusal(gap) = {};
        for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
            memory_.refused(gap, member) = 0;
        }
    }
    void move(std::uint32_t from, std::uint32_t to) {
        memory_.refusal(to) = memory_.refusal(from);
        for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
            memory_.refused(to, member) = memory_.refused(from, member);
        }
    }

    NegotiationMemory<Atomics> memory_;
};

}  // namespace rueda::core
