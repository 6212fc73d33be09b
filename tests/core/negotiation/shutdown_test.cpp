// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <catch2/catch.hpp>

#include "tests/core/negotiation/members.hpp"

/// Tests how a shutdown ends pending operations.
namespace rueda::core::test {
namespace {

constexpr NegotiationExtent kThree = {
    .members = 3, .unnamed_slots = 4, .initial_slots = 8, .slots = 16, .mailbox_records = 4};

TEST_CASE("incomplete operations of every form fail, and complete ones do not") {
    Members set(kThree);
    const Metadata metadata = allreduce_of({3});
    const std::uint32_t pending = set.bind("pending", metadata);
    const std::uint32_t complete = set.bind("complete", metadata);
    REQUIRE(set.arrive_at(2, pending, 1) == Arrival::counted);
    set.call(complete, 1);
    REQUIRE(set.arrive_at(1, 2, 1, 1, &metadata) == Arrival::counted);
    REQUIRE(set.announce_in_full(0, "seen by one", metadata).is_ok());
    const std::size_t before = set.entries().size();

    CHECK(set.shut_down(1).value() == 4);
    const std::vector<Entry> entries = set.entries();
    REQUIRE(entries.size() == before + 4);
    CHECK(entries[before].kind == EntryKind::closing);
    const std::vector<std::uint32_t> failed = {2, pending, complete + 1};
    for (std::size_t i = 0; i < 3; ++i) {
        const Entry& entry = entries[before + 1 + i];
        CHECK(entry.kind == EntryKind::failed);
        CHECK(entry.slot == failed[i]);
    }
    CHECK(set.header().first_shut_down.load() == 1);
    CHECK(set.header().shut_down.load() == 0b010);
    // After the shutdown, announcements of every kind are refused.
    CHECK(set.arrive_at(0, pending, 1) == Arrival::retired);
    CHECK(set.arrive_at(0, complete, 2) == Arrival::retired);
    CHECK(set.arrive_at(0, 2, 1, 1, &metadata) == Arrival::retired);
    CHECK(set.arrive_at(0, 3, 1, 1, &metadata) == Arrival::retired);
}

TEST_CASE("full announcements after a shutdown are refused, with an entry for their rank and ticket") {
    Members set(kThree);
    REQUIRE(set.shut_down(2).value() == 1);
    CHECK(set.announce_in_full(0, "late", allreduce_of({3}), 1, 4711).value() == 1);
    const Entry refused = set.entries().back();
    CHECK(refused.kind == EntryKind::refused);
    CHECK(refused.rank == 0);
    CHECK(refused.ticket == 4711);
    CHECK(refused.slot == kNoSlot);
    CHECK(set.header().high_slot.load() == 4);
}

TEST_CASE("the log is closed when all ranks have shut down, and names the rank that failed it first") {
    Members set(kThree);
    REQUIRE(set.announce_in_full(0, "a", allreduce_of({3})).is_ok());
    CHECK(set.shut_down(2).value() == 2);
    CHECK(set.shut_down(0).value() == 0);
    CHECK(set.header().shut_down.load() == 0b101);
    CHECK(set.shut_down(1).value() == 1);
    REQUIRE(set.entries().size() == 3);
    CHECK(set.entries()[0].kind == EntryKind::closing);
    CHECK(set.entries()[1].kind == EntryKind::failed);
    CHECK(set.header().first_shut_down.load() == 2);
    CHECK(set.entries()[2].kind == EntryKind::closed);
}

}  // namespace
}  // namespace rueda::core::test
