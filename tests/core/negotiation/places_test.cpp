// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "core/negotiation/direct.hpp"
#include "tests/core/negotiation/members.hpp"

/// Tests the addresses of places (the memory for announcements). A place depends on the member, the slot, and the
/// generation (use of the slot).
namespace rueda::core::test {
namespace {

constexpr std::uint32_t kPayloadSlots = 2;
constexpr std::uint32_t kPayloadBytes = 256;

NegotiationExtent extent_of(std::uint32_t members) {
    return {.members = members,
            .unnamed_slots = 1,
            .initial_slots = 4,
            .slots = 4,
            .mailbox_records = 4,
            .payload_slots = kPayloadSlots,
            .payload_bytes = kPayloadBytes};
}

/// The memory ranges to which an announcement may write.
using Lines = std::vector<std::pair<const std::byte*, std::size_t>>;
Lines lines_of(const Members& set, std::uint32_t slot, std::uint32_t rank, std::uint64_t generation) {
    const auto memory = set.memory();
    Lines lines = {{reinterpret_cast<const std::byte*>(&memory.place(slot, rank, generation)), sizeof(Place<Atomics>)},
                   {reinterpret_cast<const std::byte*>(memory.splits(slot, rank, generation)),
                    set.extent().members * sizeof(std::int64_t)}};
    if (const std::byte* payload = memory.payload(slot, rank, generation, kPayloadBytes); payload != nullptr) {
        lines.emplace_back(payload, kPayloadBytes);
    }
    return lines;
}

TEST_CASE("announcements of one generation and of the next one write to different memory") {
    for (const std::uint32_t members : {2U, 3U, 8U}) {
        const Members set(extent_of(members));
        for (std::uint64_t generation = 0; generation < 9; ++generation) {
            Lines all;
            for (std::uint32_t slot = 0; slot < set.extent().slots; ++slot) {
                for (std::uint32_t rank = 0; rank < members; ++rank) {
                    for (const std::uint64_t either : {generation, generation + 1}) {
                        const Lines lines = lines_of(set, slot, rank, either);
                        REQUIRE(lines.size() == (slot < kPayloadSlots ? 3 : 2));
                        all.insert(all.end(), lines.begin(), lines.end());
                    }
                }
            }
            std::sort(all.begin(), all.end());
            for (std::size_t i = 0; i + 1 < all.size(); ++i) {
                INFO(members << " members, generation " << generation << ", range " << i);
                REQUIRE(all[i].first + all[i].second <= all[i + 1].first);
            }
            const auto* const begin = reinterpret_cast<const std::byte*>(&set.header());
            REQUIRE(all.front().first >= begin + sizeof(SetHeader<Atomics>));
            REQUIRE(all.back().first + all.back().second <= begin + NegotiationMemory<Atomics>::bytes(set.extent()));
        }
    }
}

TEST_CASE("two members change places every other generation, and with them payloads and splits; of three, none does") {
    for (const std::uint32_t members : {2U, 3U}) {
        const Members set(extent_of(members));
        for (std::uint32_t slot = 0; slot < set.extent().slots; ++slot) {
            for (std::uint64_t generation = 0; generation < 9; ++generation) {
                for (std::uint32_t rank = 0; rank < members; ++rank) {
                    INFO(members << " members, slot " << slot << ", rank " << rank << ", generation " << generation);
                    const std::uint32_t before = members == 2 ? 1 - rank : rank;
                    CHECK(lines_of(set, slot, rank, generation + 2) == lines_of(set, slot, before, generation));
                    CHECK(lines_of(set, slot, rank, generation + 4) == lines_of(set, slot, rank, generation));
                }
            }
        }
    }
}

TEST_CASE("the smallest payloads lie in their place, larger ones where there is room") {
    const Members set(extent_of(2));
    const auto memory = set.memory();
    for (std::uint64_t generation = 0; generation < 4; ++generation) {
        Place<Atomics>& place = memory.place(3, 1, generation);
        CHECK(memory.payload(3, 1, generation, 0) == place.payload.data());
        CHECK(memory.payload(3, 1, generation, kInlineBytes) == place.payload.data());
        CHECK(memory.payload(3, 1, generation, kInlineBytes + 1) == nullptr);
        CHECK(memory.payload(1, 1, generation, kInlineBytes + 1) != nullptr);
        CHECK(memory.payload(1, 1, generation, kPayloadBytes + 1) == nullptr);
    }
}

/// When a slot gets a new name, both places of each member still contain stamps (signs of announcements) from the
/// slot's earlier use.
TEST_CASE("a number is used again: no member finds an announcement of its earlier use") {
    for (const std::uint32_t members : {2U, 3U}) {
        // The table has four slots for names and cannot grow, so slots are used again soon.
        Members set({.members = members, .unnamed_slots = 4, .initial_slots = 8, .slots = 8, .mailbox_records = 8});
        const Metadata metadata = allreduce_of({3});
        const std::uint32_t slot = set.bind("a", metadata);
        for (std::uint64_t generation = 1; generation <= 6; ++generation) {
            set.call(slot, generation);
        }
        for (const char* name : {"b", "c", "d"}) {
            set.bind(name, metadata);
        }
        set.catch_up();
        std::uint32_t again = kNoSlot;
        for (const char* name : {"e", "f", "g"}) {
            again = again == slot ? again : set.bind(name, metadata);
            set.catch_up();
        }
        REQUIRE(again == slot);
        for (std::uint64_t generation = 1; generation <= 6; ++generation) {
            for (std::uint32_t rank = 0; rank < members; ++rank) {
                for (std::uint32_t other = 0; other < members; ++other) {
                    INFO(members << " members, generation " << generation << ", rank " << rank);
                    CHECK((other == rank ||
                           look_at_direct(set.memory(), slot, other, generation) == DirectState::waiting));
                }
                set.announce_directly(rank, slot, generation, 1);
                set.memory().place(slot, rank, generation).flags = Place<Atomics>::kDirect;
            }
            for (std::uint32_t rank = 0; rank < members; ++rank) {
                CHECK(look_at_direct(set.memory(), slot, rank, generation) == DirectState::complete);
            }
        }
    }
}

}  // namespace
}  // namespace rueda::core::test
