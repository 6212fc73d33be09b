// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/pending_tensors.hpp"

#include <catch2/catch.hpp>

#include "core/negotiation/joining.hpp"
#include "tests/core/negotiation/members.hpp"

namespace rueda::core::test {
namespace {

constexpr NegotiationExtent kThree = {
    .members = 3, .unnamed_slots = 4, .initial_slots = 8, .slots = 16, .mailbox_records = 8};

TEST_CASE("nothing is pending in a new set, or after all ranks have announced") {
    Members set(kThree);
    CHECK(pending_tensors(set.memory()).empty());
    const std::uint32_t slot = set.bind("weight", allreduce_of({3}));
    CHECK(pending_tensors(set.memory()).empty());
    set.call(slot, 1);
    CHECK(pending_tensors(set.memory()).empty());
}

TEST_CASE("a name that some have announced in full is pending, since the first of them") {
    Members set(kThree);
    REQUIRE(set.announce_in_full(2, "weight", allreduce_of({3}), 500).is_ok());
    REQUIRE(set.announce_in_full(0, "weight", allreduce_of({3}), 300).is_ok());
    const auto pending = pending_tensors(set.memory());
    REQUIRE(pending.size() == 1);
    CHECK(pending[0].id == PendingTensor::Id{4, 1, 0});
    CHECK(pending[0].name == "weight");
    CHECK(pending[0].since_ns == 300);
    CHECK(pending[0].ready_mask == 0b101);
}

TEST_CASE("the incomplete generation of a bound name is pending") {
    Members set(kThree);
    const std::uint32_t slot = set.bind("weight", allreduce_of({3}));
    for (std::uint64_t generation = 1; generation <= 3; ++generation) {
        REQUIRE(set.arrive_at(1, slot, generation, 100 * static_cast<std::int64_t>(generation)) == Arrival::counted);
        auto pending = pending_tensors(set.memory());
        REQUIRE(pending.size() == 1);
        CHECK(pending[0].id == PendingTensor::Id{slot, 1, generation});
        CHECK(pending[0].name == "weight");
        CHECK(pending[0].since_ns == 100 * static_cast<std::int64_t>(generation));
        CHECK(pending[0].ready_mask == 0b010);
        REQUIRE(set.arrive_at(2, slot, generation, 999) == Arrival::counted);
        pending = pending_tensors(set.memory());
        REQUIRE(pending.size() == 1);
        CHECK(pending[0].ready_mask == 0b110);
        CHECK(pending[0].since_ns == 100 * static_cast<std::int64_t>(generation));
        REQUIRE(set.arrive_at(0, slot, generation) == Arrival::last);
        set.append_call(slot, generation);
        CHECK(pending_tensors(set.memory()).empty());
    }
}

TEST_CASE("ranks that have joined wait, since something was last announced, for those that have not") {
    Members set(kThree);
    set_joined(set.memory(), 2);
    set.header().announced_ns.store(700);
    auto pending = pending_tensors(set.memory());
    REQUIRE(pending.size() == 1);
    CHECK(pending[0].name == "join()");
    CHECK(pending[0].since_ns == 700);
    CHECK(pending[0].ready_mask == 0b100);
    const PendingTensor::Id before = pending[0].id;
    set.header().announced_ns.store(900);
    pending = pending_tensors(set.memory());
    REQUIRE(pending.size() == 1);
    // The id of the join changes whenever a rank announces something, because every announcement counts as progress of
    // the join.
    CHECK(pending[0].id != before);
    // After all members have joined, the join still waits for members that have not finished earlier operations.
    set_joined(set.memory(), 0);
    set_joined(set.memory(), 1);
    REQUIRE(set.settle(0).is_ok());
    REQUIRE(set.settle(2).is_ok());
    pending = pending_tensors(set.memory());
    REQUIRE(pending.size() == 1);
    CHECK(pending[0].name == "join()");
    CHECK(pending[0].ready_mask == 0b111);
    CHECK(pending[0].unfinished_mask == 0b010);
    REQUIRE(set.settle(1).is_ok());
    CHECK(pending_tensors(set.memory()).empty());
}

/// The table has four slots for names (numbers 4 to 7) and cannot grow.
TEST_CASE("a name that waits for a slot is pending, and so is what stands in a full mailbox and before it") {
    Members set({.members = 3, .unnamed_slots = 4, .initial_slots = 8, .slots = 8, .mailbox_records = 2});
    for (const char* name : {"a", "bb", "ccc", "dddd"}) {
        REQUIRE(set.announce_in_full(0, name, allreduce_of({3})).is_ok());
    }
    for (const char* name : {"a", "bb", "ccc", "dddd"}) {
        REQUIRE(set.announce_in_full(1, name, allreduce_of({3})).is_ok());
        REQUIRE(set.announce_in_full(2, name, allreduce_of({3})).is_ok());
    }
    set.catch_up();
    REQUIRE(set.announce_in_full(0, "waits", allreduce_of({3}), 500).is_ok());
    REQUIRE(set.announce_in_full(0, "waits too", allreduce_of({3}), 700).is_ok());
    set.memory().mailbox(0).deferred_ns.store(900);
    set.memory().mailbox(0).deferred.open("deferred");
    set.catch_up(0);
    set.catch_up(1);
    auto pending = pending_tensors(set.memory());
    REQUIRE(pending.size() == 3);
    const auto names = {"waits", "waits too", "deferred"};
    const auto times = {500, 700, 900};
    for (std::size_t i = 0; i < pending.size(); ++i) {
        CHECK(pending[i].name == names.begin()[i]);
        CHECK(pending[i].since_ns == times.begin()[i]);
        CHECK(pending[i].ready_mask == 0b001);
        CHECK(pending[i].unread_mask == 0b100);
        CHECK(pending[i].unfinished_mask == 0);
    }
    REQUIRE(set.announce_in_full(1, "waits", allreduce_of({3}), 1000).is_ok());
    pending = pending_tensors(set.memory());
    REQUIRE(pending.size() == 3);
    CHECK(pending[0].name == "waits");
    CHECK(pending[0].ready_mask == 0b011);
    // When the last member announces, the waiting time begins again.
    REQUIRE(set.announce_in_full(2, "waits", allreduce_of({3}), 2000).is_ok());
    pending = pending_tensors(set.memory());
    REQUIRE(pending.size() == 3);
    CHECK(pending[2].name == "waits");
    CHECK(pending[2].since_ns == 2000);
    CHECK(pending[2].ready_mask == 0b111);
    CHECK(pending[2].unread_mask == 0b100);
    // All members have read the announcement. Now member 2 has to continue, because it was the last registrar (the
    // member that processes announcements). If member 2 is stopped, it is the cause.
    set.catch_up(2);
    pending = pending_tensors(set.memory());
    CHECK(pending[2].unread_mask == 0);
    CHECK(pending[2].unfinished_mask == 0b100);
    set.memory().mailbox(0).deferred.set(SlotState::unused);
    REQUIRE(set.registrar(2).retry().is_ok());
    pending = pending_tensors(set.memory());
    REQUIRE(pending.size() == 1);
    CHECK(pending[0].name == "waits too");
    CHECK(pending[0].ready_mask == 0b001);
    CHECK(pending[0].unread_mask == 0);
    CHECK(pending[0].unfinished_mask == 0);
}

TEST_CASE("a member that went directly, and does not count as the others do, is named once all have announced") {
    Members set(kThree);
    const std::uint32_t slot = set.bind("weight", allreduce_of({3}));
    set.announce_directly(2, slot, 1, 100);
    REQUIRE(set.arrive_at(0, slot, 1, 200) == Arrival::counted);
    REQUIRE(pending_tensors(set.memory()).size() == 1);
    CHECK(pending_tensors(set.memory())[0].ready_mask == 0b101);
    REQUIRE(set.arrive_at(1, slot, 1, 300) == Arrival::counted);
    const auto pending = pending_tensors(set.memory());
    REQUIRE(pending.size() == 1);
    CHECK(pending[0].ready_mask == 0b111);
    CHECK(pending[0].unfinished_mask == 0b100);
    CHECK(pending[0].since_ns == 300);
}

/// With each operation, the two members exchange their places (the memory for their announcements). So each place soon
/// contains stamps (signs that an announcement was written) of both members.
TEST_CASE("if two members change places, the missing member is named") {
    Members set({.members = 2, .unnamed_slots = 4, .initial_slots = 8, .slots = 16, .mailbox_records = 8});
    const std::uint32_t slot = set.bind("weight", allreduce_of({3}));
    const Metadata metadata = allreduce_of({5});
    for (std::uint64_t generation = 1; generation <= 8; ++generation) {
        const auto first = static_cast<std::uint32_t>(generation / 2 % 2);
        const auto at_ns = 100 * static_cast<std::int64_t>(generation);
        REQUIRE(set.arrive_at(first, slot, generation, at_ns) == Arrival::counted);
        REQUIRE(set.arrive_at(1 - first, 2, generation, at_ns + 1, &metadata) == Arrival::counted);  // unnamed
        const auto pending = pending_tensors(set.memory());
        REQUIRE(pending.size() == 2);
        CHECK(pending[0].id == PendingTensor::Id{slot, 1, generation});
        CHECK(pending[0].ready_mask == std::uint64_t{1} << first);
        CHECK(pending[0].since_ns == at_ns);
        CHECK(pending[1].id == PendingTensor::Id{2, 0, generation});
        CHECK(pending[1].ready_mask == std::uint64_t{1} << (1 - first));
        CHECK(pending[1].since_ns == at_ns + 1);
        REQUIRE(set.arrive_at(1 - first, slot, generation) == Arrival::last);
        set.append_call(slot, generation);
        REQUIRE(set.arrive_at(first, 2, generation, 1, &metadata) == Arrival::last);
        set.append_call(2, generation);
        CHECK(pending_tensors(set.memory()).empty());
    }
}

TEST_CASE(
    "a directly announced tensor is pending until all have announced it, before and after counted announcements") {
    Members set(kThree);
    const std::uint32_t slot = set.bind("weight", allreduce_of({3}));
    const std::uint32_t other = set.bind("other", allreduce_of({3}));
    for (std::uint64_t generation = 1; generation <= 6; ++generation) {
        const auto at_ns = 100 * static_cast<std::int64_t>(generation);
        // In every third generation (use of the slot), the announcements of all members are counted.
        if (generation % 3 == 0) {
            set.announce_directly(0, slot, generation, at_ns);
            REQUIRE(arrive(set.memory(), slot, generation / 3, /*changed=*/false) == Arrival::counted);
        } else {
            set.announce_directly(0, slot, generation, at_ns);
        }
        const auto pending = pending_tensors(set.memory());
        REQUIRE(pending.size() == 1);
        CHECK(pending[0].id == PendingTensor::Id{slot, 1, generation});
        CHECK(pending[0].name == "weight");
        CHECK(pending[0].since_ns == at_ns);
        CHECK(pending[0].ready_mask == 0b001);
        set.announce_directly(2, slot, generation, at_ns + 5);
        REQUIRE(pending_tensors(set.memory()).size() == 1);
        CHECK(pending_tensors(set.memory())[0].ready_mask == 0b101);
        set.announce_directly(1, slot, generation, at_ns + 6);
        if (generation % 3 == 0) {
            REQUIRE(arrive(set.memory(), slot, generation / 3, /*changed=*/false) == Arrival::counted);
            REQUIRE(arrive(set.memory(), slot, generation / 3, /*changed=*/false) == Arrival::last);
        }
        CHECK(pending_tensors(set.memory()).empty());
    }
    // A member's most recent direct announcement may belong to another tensor. Then it does not count for this tensor.
    for (std::uint32_t member = 0; member < 3; ++member) {
        set.announce_directly(member, other, 1, 600);
    }
    CHECK(pending_tensors(set.memory()).empty());
    set.announce_directly(1, slot, 7, 700);
    REQUIRE(pending_tensors(set.memory()).size() == 1);
    CHECK(pending_tensors(set.memory())[0].id == PendingTensor::Id{slot, 1, 7});
    CHECK(pending_tensors(set.memory())[0].ready_mask == 0b010);
}

TEST_CASE("a directly announced tensor is pending in a slot that was retired meanwhile") {
    Members set({.members = 2, .unnamed_slots = 4, .initial_slots = 8, .slots = 8, .mailbox_records = 8});
    set.bind("a", allreduce_of({3}));
    set.bind("bb", allreduce_of({3}));
    const std::uint32_t slot = set.bind("held", allreduce_of({3}));
    set.announce_directly(0, slot, 1, 100);
    set.bind("needs", allreduce_of({3}));  // "needs" gets the last free slot, so the registrar takes back idle slots
    REQUIRE(ArrivalCount::is_retired(set.memory().arrivals(slot).count.load()));
    const auto pending = pending_tensors(set.memory());
    REQUIRE(pending.size() == 1);
    CHECK(pending[0].id == PendingTensor::Id{slot, 1, 1});
    CHECK(pending[0].name == "held");
    CHECK(pending[0].ready_mask == 0b01);
    set.memory().cursor(0).direct.store(0);  // simulates that rank 0 withdraws its direct announcement
    CHECK(pending_tensors(set.memory()).empty());
}

TEST_CASE("unnamed calls are counted from 1 on") {
    Members set(kThree);
    const Metadata metadata = allreduce_of({1});
    for (std::uint64_t call = 0; call < 10; ++call) {
        const auto slot = static_cast<std::uint32_t>(call % 4);
        const std::uint64_t generation = call / 4 + 1;
        REQUIRE(set.arrive_at(1, slot, generation, 50, &metadata) == Arrival::counted);
        const auto pending = pending_tensors(set.memory());
        REQUIRE(pending.size() == 1);
        CHECK(pending[0].name.empty());
        CHECK(pending[0].call == call + 1);
        CHECK(pending[0].ready_mask == 0b010);
        REQUIRE(set.arrive_at(0, slot, generation, 51, &metadata) == Arrival::counted);
        REQUIRE(set.arrive_at(2, slot, generation, 52, &metadata) == Arrival::last);
        set.append_call(slot, generation);
    }
}

TEST_CASE("the longest pending tensor comes first") {
    Members set(kThree);
    const std::uint32_t early = set.bind("early", allreduce_of({3}));
    const std::uint32_t late = set.bind("late", allreduce_of({3}));
    REQUIRE(set.arrive_at(0, early, 1, 200) == Arrival::counted);
    REQUIRE(set.arrive_at(0, late, 1, 100) == Arrival::counted);
    const auto pending = pending_tensors(set.memory());
    REQUIRE(pending.size() == 2);
    CHECK(pending[0].name == "late");
    CHECK(pending[1].name == "early");
}

TEST_CASE("remains of an earlier use of a number are not taken for an announcement") {
    Members set({.members = 2, .unnamed_slots = 4, .initial_slots = 8, .slots = 8, .mailbox_records = 8});
    set.bind("a", allreduce_of({3}));
    set.bind("bb", allreduce_of({3}));
    const std::uint32_t slot = set.bind("old", allreduce_of({3}));
    set.call(slot, 1);
    set.bind("needs", allreduce_of({3}));  // this name gets the last free slot, so the registrar takes back idle slots
    CHECK(pending_tensors(set.memory()).empty());
    set.catch_up();
    REQUIRE(set.announce_in_full(1, "newer", allreduce_of({3}), 400).is_ok());
    const auto pending = pending_tensors(set.memory());
    REQUIRE(pending.size() == 1);
    CHECK(pending[0].id == PendingTensor::Id{slot, 2, 0});
    CHECK(pending[0].name == "newer");
    // A stamp (the sign of an announcement) of rank 0 remains from the slot's first use. It must not count, although it
    // has the same value as a new stamp.
    CHECK(pending[0].ready_mask == 0b10);
    REQUIRE(set.announce_in_full(0, "newer", allreduce_of({3})).is_ok());
    REQUIRE(set.arrive_at(1, slot, 1, 500) == Arrival::counted);
    REQUIRE(pending_tensors(set.memory()).size() == 1);
    CHECK(pending_tensors(set.memory())[0].ready_mask == 0b10);
}

TEST_CASE("nothing is pending any more after a mismatch or a shutdown") {
    Members set(kThree);
    REQUIRE(set.announce_in_full(0, "a", allreduce_of({3})).is_ok());
    REQUIRE(set.announce_in_full(1, "a", allreduce_of({3})).is_ok());
    REQUIRE(set.announce_in_full(2, "a", allreduce_of({4})).is_ok());
    REQUIRE(set.entries().back().kind == EntryKind::mismatch);
    CHECK(pending_tensors(set.memory()).empty());
    const std::uint32_t slot = set.bind("b", allreduce_of({3}));
    const Metadata metadata = allreduce_of({1});
    REQUIRE(set.arrive_at(0, slot, 1) == Arrival::counted);
    REQUIRE(set.arrive_at(0, 0, 1, 1, &metadata) == Arrival::counted);
    REQUIRE(set.announce_in_full(0, "c", allreduce_of({3})).is_ok());
    CHECK(pending_tensors(set.memory()).size() == 3);
    REQUIRE(set.shut_down(1).is_ok());
    CHECK(pending_tensors(set.memory()).empty());
}

TEST_CASE("names of every length come back as they are") {
    for (const std::size_t length : {1U, 7U, 8U, 9U, 504U, 511U}) {
        Members set(kThree);
        std::string name;
        for (std::size_t i = 0; i < length; ++i) {
            name += static_cast<char>('a' + i % 26);
        }
        REQUIRE(set.announce_in_full(0, name, allreduce_of({3})).is_ok());
        REQUIRE(pending_tensors(set.memory()).size() == 1);
        CHECK(pending_tensors(set.memory())[0].name == name);
    }
}

TEST_CASE("a label's name belongs to the state that was read before, or is empty") {
    SlotLabel<Atomics> label;
    label.open("first");
    const auto first = label.state();
    CHECK(label.name(first) == "first");
    label.set(SlotState::bound);
    CHECK(label.name(first) == "first");  // the name stays the same until open() sets another name
    label.open("other");
    CHECK(label.name(first).empty());
    CHECK(label.name(label.state()) == "other");
    CHECK(label.name({.use = 2, .name_bytes = RUEDA_MAX_NAME + 1, .state = SlotState::bound}).empty());
}

}  // namespace
}  // namespace rueda::core::test
