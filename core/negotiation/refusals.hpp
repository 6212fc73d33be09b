// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/negotiation/layout.hpp"

namespace rueda::core {

/// 128 bits of a name's hash. If two names had the same bits, they would share their refusals.
using RefusalKey = std::array<std::uint64_t, 2>;
[[nodiscard]] RefusalKey refusal_key(std::string_view name);

/// Remembers names that found all slots taken. Every member's operation on such a name must end in the same way,
/// although the members announce it at different times. The n-th refusal of one member corresponds to the n-th refusal
/// of every other member. So if a member was refused less often than another member, it is refused now, even if a slot
/// is free by then. When all members were refused equally often, the name is forgotten.
///
/// The table does not grow: add() returns false if it is full. It uses open addressing with linear probing and no
/// tombstones. All loops are bounded by the table's size, so that they also end if the table is damaged. Threads: only
/// the registrar.
template <class Atomics>
class Refusals {
public:
    explicit Refusals(NegotiationMemory<Atomics> memory) : memory_(memory) {}

    [[nodiscard]] bool empty() const { return memory_.header().refusals == 0; }

    /// If another member was refused more often than `member`, refuses `member` too and counts this. Returns the number
    /// of slots at the first refusal.
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

    /// Refuses `member`, which is the first member to be refused. Returns false, and changes nothing, if the table is
    /// full.
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

    /// Forgets all refusals. Called when no member must be told of a refusal any more.
    void clear() {
        for (std::uint32_t bucket = 0; bucket <= mask() && !empty(); ++bucket) {
            if (memory_.refusal(bucket).slots != 0) {
                erase(bucket--);  // an entry that was displaced by this one may be here now
            }
        }
    }

private:
    [[nodiscard]] std::uint32_t mask() const { return memory_.extent().refusal_buckets() - 1; }
    [[nodiscard]] std::uint32_t home(const Refusal& refusal) const {
        return static_cast<std::uint32_t>(refusal.key[0]) & mask();
    }

    /// Returns the bucket with the key, or the free bucket where the key would be. At least half of the buckets are
    /// free.
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

    /// Closes the gap: moves entries that were displaced by the removed one, so that every probe still finds its name.
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
