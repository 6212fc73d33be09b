// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/core/negotiation/members.hpp"

/// How numbers for names are given out, taken back and used again.
namespace rueda::core::test {
namespace {

/// Eight numbers, four of them for names; the table cannot grow.
constexpr NegotiationExtent kFixed = {
    .members = 2, .unnamed_slots = 4, .initial_slots = 8, .slots = 8, .mailbox_records = 8};

SlotState state_of(const Members& set, std::uint32_t slot) {
    return static_cast<SlotState>(set.memory().record(slot).state);
}

TEST_CASE("idle numbers are retired before the last is gone, and reused when all cursors have passed") {
    Members set(kFixed);
    const Metadata metadata = allreduce_of({3});
    CHECK(set.bind("a", metadata) == 4);
    CHECK(set.bind("b", metadata) == 5);
    REQUIRE(set.arrive_at(0, 5, 1) == Arrival::counted);  // pending
    CHECK(set.bind("c", metadata) == 6);
    CHECK(set.bind("d", metadata) == 7);
    CHECK(state_of(set, 4) == SlotState::retired);
    CHECK(state_of(set, 5) == SlotState::bound);
    CHECK(state_of(set, 6) == SlotState::retired);
    // A retirement is told before the call that took the last number.
    const std::vector<Entry> entries = set.entries();
    REQUIRE(entries.size() == 6);
    CHECK(entries[3].kind == EntryKind::retire);
    CHECK(entries[3].slot == 4);
    CHECK(entries[4].kind == EntryKind::retire);
    CHECK(entries[4].slot == 6);
    CHECK(entries[5].kind == EntryKind::first_call);
    // An arrival that comes later finds the bit.
    CHECK(set.arrive_at(1, 4, 1) == Arrival::retired);

    set.catch_up(0);
    set.memory().cursor(1).position.store(4);  // has read the first retirement only
    REQUIRE(set.announce_in_full(0, "e", metadata).is_ok());
    CHECK(state_of(set, 4) == SlotState::first_sight);
    CHECK(state_of(set, 6) == SlotState::retired);
    CHECK(state_of(set, 7) == SlotState::retired);  // idle by now, and again there was one number left
    CHECK(set.memory().arrivals(4).count.load() == 0);
    CHECK(set.memory().label(4).state().use == 2);
    set.catch_up();
    REQUIRE(set.announce_in_full(0, "f", metadata).is_ok());
    CHECK(state_of(set, 6) == SlotState::unused);
    CHECK(state_of(set, 7) == SlotState::first_sight);
}

TEST_CASE("a number is not retired between its last arrival and the call in the log") {
    Members set(kFixed);
    const Metadata metadata = allreduce_of({3});
    CHECK(set.bind("a", metadata) == 4);
    REQUIRE(set.arrive_at(0, 4, 1) == Arrival::counted);
    REQUIRE(set.arrive_at(1, 4, 1) == Arrival::last);  // complete, and its call is still to be appended
    CHECK(set.bind("b", metadata) == 5);
    CHECK(set.bind("c", metadata) == 6);
    CHECK(set.bind("d", metadata) == 7);
    CHECK(state_of(set, 4) == SlotState::bound);
    CHECK(state_of(set, 5) == SlotState::retired);
}

TEST_CASE("when every number is pending, the Runtime ends") {
    Members set(kFixed);
    const Metadata metadata = allreduce_of({3});
    for (const char* name : {"a", "b", "c", "d"}) {
        REQUIRE(set.announce_in_full(0, name, metadata).is_ok());
    }
    const auto posted = set.announce_in_full(0, "e", metadata);
    CHECK(posted.status().code() == ErrorCode::resource_exhausted);
    CHECK(posted.status().message() ==
          "all 8 slots for tensor names are taken, by pending tensors or until all ranks have read that they are free; "
          "wait for some operations, or raise RUEDA_SLOTS_MAX");
}

TEST_CASE("the table doubles when nothing is idle, after the memory was asked for") {
    Members set({.members = 2, .unnamed_slots = 4, .initial_slots = 8, .slots = 20, .mailbox_records = 8});
    const Metadata metadata = allreduce_of({3});
    int names = 0;
    const auto announce_next = [&] { return set.announce_in_full(0, fmt::format("t{}", names++), metadata); };
    for (int i = 0; i < 4; ++i) {
        REQUIRE(announce_next().is_ok());
    }
    CHECK(set.asked_bytes.empty());
    REQUIRE(announce_next().is_ok());
    CHECK(set.header().slot_limit == 16);
    const std::uint64_t per_slot =
        sizeof(ArrivalWord<Atomics>) + sizeof(SlotRecord) + sizeof(SlotLabel<Atomics>) + 4 * sizeof(Place<Atomics>);
    CHECK(set.asked_bytes == std::vector<std::uint64_t>{8 * per_slot});
    while (names < 13) {
        REQUIRE(announce_next().is_ok());
    }
    CHECK(set.header().slot_limit == 20);  // not beyond the address space
    CHECK(set.asked_bytes == std::vector<std::uint64_t>{8 * per_slot, 4 * per_slot});
    CHECK(set.header().high_slot.load() == 17);
}

TEST_CASE("a table that the memory does not allow is refused with the memory's reason") {
    Members set({.members = 2, .unnamed_slots = 4, .initial_slots = 8, .slots = 16, .mailbox_records = 8});
    set.growth = failure(ErrorCode::resource_exhausted, "no room");
    for (const char* name : {"a", "b", "c", "d"}) {
        REQUIRE(set.announce_in_full(0, name, allreduce_of({3})).is_ok());
    }
    CHECK(set.announce_in_full(0, "e", allreduce_of({3})).status().message() == "no room");
    CHECK(set.header().slot_limit == 8);
}

TEST_CASE("while the table can grow, only what was not called for long is taken back") {
    Members set({.members = 2, .unnamed_slots = 4, .initial_slots = 8, .slots = 16, .mailbox_records = 8});
    const Metadata metadata = allreduce_of({3});
    CHECK(set.bind("idle", metadata) == 4);
    CHECK(set.bind("busy", metadata) == 5);
    for (std::uint64_t generation = 1; generation <= 10; ++generation) {
        set.call(5, generation);
        set.catch_up();
    }
    CHECK(set.bind("c", metadata) == 6);
    CHECK(set.bind("d", metadata) == 7);
    CHECK(state_of(set, 4) == SlotState::retired);
    CHECK(state_of(set, 5) == SlotState::bound);
    CHECK(state_of(set, 6) == SlotState::bound);  // new
    CHECK(set.header().slot_limit == 8);
}

TEST_CASE("a name can come back after its number was given to another one") {
    Members set(kFixed);
    const Metadata metadata = allreduce_of({3});
    for (int round = 0; round < 50; ++round) {
        for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
            const std::uint32_t slot = set.bind(name, metadata);
            REQUIRE(slot >= 4);
            REQUIRE(slot < 8);
            const SlotRecord& record = set.memory().record(slot);
            REQUIRE(std::string_view(record.name, record.name_bytes) == name);
            set.catch_up();
            // Others' slots hold other names.
            for (std::uint32_t other = 4; other < 8; ++other) {
                const SlotRecord& page = set.memory().record(other);
                REQUIRE((other == slot || state_of(set, other) != SlotState::bound ||
                         std::string_view(page.name, page.name_bytes) != name));
            }
        }
        // Names that are still bound must not be announced in full again: let all of them go.
        for (std::uint32_t slot = 4; slot < 8; ++slot) {
            if (state_of(set, slot) == SlotState::bound) {
                const Metadata changed = allreduce_of({7});
                REQUIRE(set.arrive_at(0, slot, 1, 1, &changed) == Arrival::counted);
                REQUIRE(set.arrive_at(1, slot, 1, 1, &changed) == Arrival::last_changed);
                REQUIRE(set.resolve(1, slot, 1).value() == 1);
            }
        }
        set.catch_up();
    }
}

}  // namespace
}  // namespace rueda::core::test
