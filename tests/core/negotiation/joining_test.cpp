// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/negotiation/joining.hpp"

#include <catch2/catch.hpp>

#include "tests/core/negotiation/members.hpp"

/// Tests how the registrar processes announcements of joined members, and how a join ends.
namespace rueda::core::test {
namespace {

using Catch::Matchers::Contains;

constexpr NegotiationExtent kThree = {
    .members = 3, .unnamed_slots = 4, .initial_slots = 8, .slots = 16, .mailbox_records = 4};

Metadata broadcast_of(std::initializer_list<std::int64_t> shape) {
    Metadata metadata = allreduce_of(shape);
    metadata.operation = static_cast<std::uint8_t>(collectives::Operation::broadcast);
    return metadata;
}

TEST_CASE("a bound allreduce is called without the ranks that have joined, and keeps its slot") {
    Members set(kThree);
    const std::uint32_t slot = set.bind("weight", allreduce_of({3}));
    set_joined(set.memory(), 1);
    for (std::uint64_t generation = 1; generation <= 3; ++generation) {
        REQUIRE(set.arrive_at(2, slot, generation) == Arrival::counted);
        CHECK(has_new_arrivals(set.memory(), slot, generation - 1));
        REQUIRE(set.stand_in_at(1, slot, generation) == Arrival::counted);
        REQUIRE(set.arrive_at(0, slot, generation) == Arrival::last);
        CHECK_FALSE(has_new_arrivals(set.memory(), slot, generation));
        REQUIRE(set.resolve(0, slot, generation).value() == 1);
        CHECK(set.entries().back().kind == EntryKind::call);
        CHECK(set.entries().back().slot == slot);
        CHECK(set.entries().back().bytes == 12);
        CHECK(set.memory().arrivals(slot).called.load() == generation * 3);
    }
    set.call(slot, 4);  // after the join, the slot's operation needs all members again
}

TEST_CASE("the other ranks' new metadata are called, and only those can disagree") {
    Members set(kThree);
    const std::uint32_t slot = set.bind("weight", allreduce_of({3}));
    const Metadata other = allreduce_of({5});
    REQUIRE(set.stand_in_at(1, slot, 1) == Arrival::counted);
    REQUIRE(set.arrive_at(0, slot, 1, 1, &other) == Arrival::counted);
    REQUIRE(set.arrive_at(2, slot, 1, 1, &other) == Arrival::last_changed);
    REQUIRE(set.resolve(2, slot, 1).value() == 1);
    CHECK(set.entries().back().kind == EntryKind::changed_call);
    CHECK(set.entries().back().bytes == 20);

    REQUIRE(set.announce_in_full(0, "new", allreduce_of({3})).is_ok());
    REQUIRE(set.stand_in_in_full(1, "new").is_ok());
    REQUIRE(set.announce_in_full(2, "new", allreduce_of({4})).value() == 1);
    CHECK(set.entries().back().kind == EntryKind::mismatch);
}

TEST_CASE("a new name is bound to the metadata of the ranks that have not joined") {
    Members set(kThree);
    REQUIRE(set.announce_in_full(2, "new", allreduce_of({7})).is_ok());
    REQUIRE(set.stand_in_in_full(0, "new").is_ok());
    REQUIRE(set.stand_in_in_full(1, "new").value() == 1);
    const Entry called = set.entries().back();
    CHECK(called.kind == EntryKind::first_call);
    CHECK(called.bytes == 28);
    CHECK(agree(set.memory().record(called.slot).metadata, allreduce_of({7})));
    set.call(called.slot, 1);
}

TEST_CASE("an operation that needs every rank reports the joined ranks as missing, and loses its slot") {
    Members set(kThree);
    const std::uint32_t slot = set.bind("model", broadcast_of({3}));
    REQUIRE(set.arrive_at(0, slot, 1) == Arrival::counted);
    REQUIRE(set.arrive_at(2, slot, 1) == Arrival::counted);
    REQUIRE(set.stand_in_at(1, slot, 1) == Arrival::last);
    REQUIRE(set.resolve(1, slot, 1).value() == 1);
    CHECK(set.entries().back().kind == EntryKind::lacks_joined);
    CHECK(set.memory().record(slot).state == static_cast<std::uint32_t>(SlotState::retired));

    REQUIRE(set.announce_in_full(0, "seen first", broadcast_of({3})).is_ok());
    REQUIRE(set.announce_in_full(2, "seen first", broadcast_of({3})).is_ok());
    REQUIRE(set.stand_in_in_full(1, "seen first").value() == 1);
    CHECK(set.entries().back().kind == EntryKind::lacks_joined);

    const Metadata unnamed = broadcast_of({2});
    REQUIRE(set.arrive_at(0, 1, 1, 1, &unnamed) == Arrival::counted);
    REQUIRE(set.stand_in_at(1, 1, 1) == Arrival::counted);
    REQUIRE(set.arrive_at(2, 1, 1, 1, &unnamed) == Arrival::last);
    REQUIRE(set.resolve(2, 1, 1).value() == 1);
    CHECK(set.entries().back().kind == EntryKind::lacks_joined);
    CHECK(set.memory().record(1).state == static_cast<std::uint32_t>(SlotState::bound));
    // A barrier is executed even if a member has joined, because it needs no data.
    Metadata barrier;
    barrier.operation = static_cast<std::uint8_t>(collectives::Operation::barrier);
    REQUIRE(set.arrive_at(0, 2, 1, 1, &barrier) == Arrival::counted);
    REQUIRE(set.stand_in_at(1, 2, 1) == Arrival::counted);
    REQUIRE(set.arrive_at(2, 2, 1, 1, &barrier) == Arrival::last);
    REQUIRE(set.resolve(2, 2, 1).value() == 1);
    CHECK(set.entries().back().kind == EntryKind::call);
}

TEST_CASE("all are back when the last has nothing pending, and may join again") {
    Members set(kThree);
    for (int round = 0; round < 3; ++round) {
        set_joined(set.memory(), 2);
        set_joined(set.memory(), 0);
        CHECK(is_away(set.memory(), 0));
        CHECK_FALSE(is_away(set.memory(), 1));
        CHECK(set_joined(set.memory(), 1) == 0b111);
        CHECK(set.settle(1).value() == 0);
        CHECK(set.settle(0).value() == 0);
        CHECK(joined_to_tell(set.memory()) == 0b111);
        CHECK(set.settle(2).value() == 1);
        CHECK(set.entries().back().kind == EntryKind::all_joined);
        CHECK(set.entries().back().rank == 1);
        CHECK(joined_to_tell_of_posts(set.memory()) == 0);
        set.catch_up();
    }
}

TEST_CASE("a rank that has joined does not have to confirm the refusal of a name") {
    Members set({.members = 2,
                 .unnamed_slots = 1,
                 .initial_slots = 2,
                 .slots = 2,
                 .mailbox_records = 8,
                 .refusals_per_slot = 1});
    REQUIRE(set.announce_in_full(0, "taken", allreduce_of({3})).is_ok());
    REQUIRE(set.announce_in_full(0, "refused", allreduce_of({3})).value() == 1);
    REQUIRE(set.entries().back().kind == EntryKind::exhausted);
    REQUIRE(set.stand_in_in_full(1, "taken").value() == 1);
    set_joined(set.memory(), 1);
    set_joined(set.memory(), 0);
    REQUIRE(set.settle(0).is_ok());
    REQUIRE(set.settle(1).value() == 1);
    CHECK(set.header().refusals == 0);
    set.catch_up();
    REQUIRE(set.announce_in_full(1, "refused", allreduce_of({3})).is_ok());
    CHECK(set.entries().back().kind == EntryKind::retire);  // the new name retires the slot of "taken"
}

TEST_CASE("impossible actions end the job; after a shutdown no rank settles") {
    Members set(kThree);
    set_joined(set.memory(), 0);
    CHECK_THAT(set.settle(0).status().message(), Contains("rank 0 has nothing left to do, but not all"));
    CHECK_THAT(Members(kThree).stand_in_in_full(2, "x").status().message(),
               Contains("rank 2 has joined, and announced 'x', which no other rank has announced"));
    Members all_away(kThree);
    const std::uint32_t slot = all_away.bind("x", allreduce_of({3}));
    REQUIRE(all_away.stand_in_at(0, slot, 1) == Arrival::counted);
    REQUIRE(all_away.stand_in_at(1, slot, 1) == Arrival::counted);
    REQUIRE(all_away.stand_in_at(2, slot, 1) == Arrival::last);
    CHECK_THAT(all_away.resolve(0, slot, 1).status().message(), Contains("is complete, and all its ranks have joined"));
    Members closing(kThree);
    set_joined(closing.memory(), 0);
    REQUIRE(closing.shut_down(1).value() == 1);
    CHECK(closing.settle(0).value() == 0);
}

}  // namespace
}  // namespace rueda::core::test
