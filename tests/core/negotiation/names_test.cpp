// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>

#include "tests/core/negotiation/members.hpp"

/// Tests the registrar's table of names: a hash table with open addressing, in which a removed name leaves a tombstone.
namespace rueda::core::test {
namespace {

TEST_CASE("names are found behind tombstones, and the table is rebuilt before those fill it") {
    Members set({.members = 2, .unnamed_slots = 4, .initial_slots = 16, .slots = 16, .mailbox_records = 8});
    REQUIRE(set.extent().name_buckets() == 32);
    // All names of this test have the same hash. "early" comes before the removed names in the probe sequence, and
    // "late" comes after the first removed name.
    REQUIRE(set.announce_in_full(0, "early-0000", allreduce_of({3})).is_ok());
    std::uint32_t most_tombstones = 0;
    bool rebuilt = false;
    for (int i = 0; i < 100; ++i) {
        const std::string name = fmt::format("round-{}", 1000 + i);
        REQUIRE(set.announce_in_full(0, name, allreduce_of({3})).is_ok());
        if (i == 0) {
            REQUIRE(set.announce_in_full(1, "late-00000", allreduce_of({3})).is_ok());
        }
        REQUIRE(set.announce_in_full(1, name, allreduce_of({4})).is_ok());  // the mismatch removes the name
        REQUIRE(set.entries().back().kind == EntryKind::mismatch);
        set.catch_up();
        rebuilt = rebuilt || set.header().tombstones < most_tombstones;
        most_tombstones = std::max(most_tombstones, set.header().tombstones);
    }
    CHECK(rebuilt);
    // The rebuilding starts as soon as more than a quarter of the buckets contain tombstones (marks of removed names).
    CHECK(most_tombstones == 9);
    CHECK(set.announce_in_full(1, "early-0000", allreduce_of({3})).value() == 1);
    CHECK(set.entries().back().kind == EntryKind::first_call);
    CHECK(set.entries().back().slot == 4);
    CHECK(set.announce_in_full(0, "late-00000", allreduce_of({3})).value() == 1);
    CHECK(set.entries().back().kind == EntryKind::first_call);
    CHECK(set.entries().back().slot == 6);
}

TEST_CASE("probing goes on at the first bucket behind the last") {
    Members set({.members = 1, .unnamed_slots = 4, .initial_slots = 16, .slots = 16, .mailbox_records = 8});
    // The table has 32 buckets, so hash 31 belongs to the last one.
    const std::string last(31, 'x');
    const std::string same(31, 'y');
    REQUIRE(set.announce_in_full(0, last, allreduce_of({3})).value() == 1);
    REQUIRE(set.announce_in_full(0, same, allreduce_of({3})).value() == 1);
    CHECK(set.memory().name_bucket(31) == 4 + 1);
    CHECK(set.memory().name_bucket(0) == 5 + 1);
    // The registrar finds the name in bucket 0. A name with a slot must not be announced in full again, so the
    // announcement fails. The error text contains the slot that belongs to the name.
    CHECK(set.announce_in_full(0, same, allreduce_of({3})).status().message() ==
          "rank 0 announced '" + same + "' in full, but its slot 5 is in state 2");
}

}  // namespace
}  // namespace rueda::core::test
