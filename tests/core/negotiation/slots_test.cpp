// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/negotiation/refusals.hpp"
#include "tests/core/negotiation/members.hpp"

/// Tests how names get slots, and how the registrar takes idle slots back for new names.
namespace rueda::core::test {
namespace {

/// Eight slots, four of them for names. The table cannot grow.
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
    REQUIRE(set.arrive_at(0, 5, 1) == Arrival::counted);  // this announcement stays pending, so slot 5 is not idle
    CHECK(set.bind("c", metadata) == 6);
    CHECK(set.bind("d", metadata) == 7);
    CHECK(state_of(set, 4) == SlotState::retired);
    CHECK(state_of(set, 5) == SlotState::bound);
    CHECK(state_of(set, 6) == SlotState::retired);
    // In the log, the entries about the retired slots come before the call that took the last free slot.
    const std::vector<Entry> entries = set.entries();
    REQUIRE(entries.size() == 6);
    CHECK(entries[3].kind == EntryKind::retire);
    CHECK(entries[3].slot == 4);
    CHECK(entries[4].kind == EntryKind::retire);
    CHECK(entries[4].slot == 6);
    CHECK(entries[5].kind == EntryKind::first_call);
    // An announcement in a retired slot is not counted, and the member learns that the slot is retired.
    CHECK(set.arrive_at(1, 4, 1) == Arrival::retired);

    set.catch_up(0);
    // member 1 has read the log only up to the entry about the first retired slot
    set.memory().cursor(1).position.store(4);
    REQUIRE(set.announce_in_full(0, "e", metadata).is_ok());
    CHECK(state_of(set, 4) == SlotState::first_sight);
    CHECK(state_of(set, 6) == SlotState::retired);
    // "e" got the only free slot. Therefore the registrar also retires slot 7, which is idle.
    CHECK(state_of(set, 7) == SlotState::retired);
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
    REQUIRE(set.arrive_at(1, 4, 1) == Arrival::last);  // all members have arrived, but the call is not in the log yet
    CHECK(set.bind("b", metadata) == 5);
    CHECK(set.bind("c", metadata) == 6);
    CHECK(set.bind("d", metadata) == 7);
    CHECK(state_of(set, 4) == SlotState::bound);
    CHECK(state_of(set, 5) == SlotState::retired);
}

/// Occupies every slot with a pending operation of `member`.
void fill_up(Members& set, std::uint32_t member = 0) {
    for (const char* name : {"a", "b", "c", "d"}) {
        REQUIRE(set.announce_in_full(member, name, allreduce_of({3})).value() == 0);
    }
}

TEST_CASE("when every number is pending, a new name is refused, and nothing else") {
    Members set(kFixed);
    const Metadata metadata = allreduce_of({3});
    fill_up(set);
    CHECK(set.announce_in_full(0, "e", metadata, 1, 4711).value() == 1);
    const Entry refused = set.entries().back();
    CHECK(refused.kind == EntryKind::exhausted);
    CHECK(refused.rank == 0);
    CHECK(refused.ticket == 4711);
    CHECK(refused.slot == kNoSlot);
    CHECK(refused.bytes == 8);
    CHECK(set.registrar(0).waits_for_readers() == 0);
    // Pending operations are not affected.
    CHECK(set.announce_in_full(1, "b", metadata).value() == 1);
    CHECK(set.entries().back().kind == EntryKind::first_call);
    CHECK(set.entries().back().slot == 5);
}

TEST_CASE("a refused operation is refused on every member, also when there is a number again") {
    Members set(kFixed);
    const Metadata metadata = allreduce_of({3});
    fill_up(set);
    REQUIRE(set.announce_in_full(0, "e", metadata, 1, 1).value() == 1);
    CHECK(set.header().refusals == 1);
    for (const char* name : {"a", "b", "c", "d"}) {
        REQUIRE(set.announce_in_full(1, name, metadata).value() == 1);
    }
    set.catch_up();
    // All four slots are idle. Member 0 announces "e" for the second time. Member 1 has not announced "e" yet.
    CHECK(set.announce_in_full(0, "e", metadata, 1, 2).value() == 4);
    CHECK(set.entries().back().kind == EntryKind::retire);
    CHECK(set.registrar(0).waits_for_readers() != 0);
    set.catch_up();
    CHECK(set.registrar(0).retry().value() == 0);
    CHECK(set.registrar(0).waits_for_readers() == 0);
    CHECK(set.announce_in_full(1, "e", metadata, 1, 3).value() == 1);
    CHECK(set.entries().back().kind == EntryKind::exhausted);
    CHECK(set.entries().back().rank == 1);
    CHECK(set.entries().back().ticket == 3);
    CHECK(set.header().refusals == 0);
    CHECK(set.announce_in_full(1, "e", metadata, 1, 4).value() == 1);
    CHECK(set.entries().back().kind == EntryKind::first_call);
}

TEST_CASE("refusals are counted per member and name, however often one of them tries") {
    Members set(kFixed);
    const Metadata metadata = allreduce_of({3});
    fill_up(set);
    const auto refused = [&](std::uint32_t member, const char* name) {
        const bool is_refused = set.announce_in_full(member, name, metadata).value() == 1 &&
                                set.entries().back().kind == EntryKind::exhausted &&
                                set.entries().back().rank == member;
        set.catch_up();
        return is_refused;
    };
    for (int i = 0; i < 100; ++i) {
        REQUIRE(refused(0, "e"));
    }
    CHECK(set.header().refusals == 1);
    REQUIRE(refused(1, "f"));
    CHECK(set.header().refusals == 2);
    for (int i = 0; i < 100; ++i) {
        CHECK(set.header().refusals == 2);
        REQUIRE(refused(1, "e"));
    }
    CHECK(set.header().refusals == 1);
    REQUIRE(refused(0, "f"));
    CHECK(set.header().refusals == 0);
}

TEST_CASE("names whose refusals collide are found, whichever goes first") {
    Members set(kFixed);
    Refusals<Atomics> refusals(set.memory());
    // All keys hash to the first or the last bucket, so collisions move keys to later buckets and around the end of the
    // table.
    const std::uint64_t last = set.extent().refusal_buckets() - 1;
    const auto key = [&](std::uint64_t i) { return RefusalKey{i % 3 == 0 ? 0 : last, i}; };
    std::uint64_t shuffled = 1;
    for (int round = 0; round < 20; ++round) {
        for (std::uint64_t i = 0; i < 9; ++i) {
            REQUIRE(refusals.add(key(i), 0, 8));
        }
        for (std::uint64_t left = 9; left > 0; --left) {
            std::uint64_t i = shuffled = shuffled * 6364136223846793005 + 1442695040888963407;
            for (i = (i >> 40) % 9; !refusals.settle(key(i), 1).has_value(); i = (i + 1) % 9) {
            }
            CHECK(set.header().refusals == left - 1);
            CHECK_FALSE(refusals.settle(key(i), 1).has_value());
        }
        for (std::uint32_t bucket = 0; bucket <= last; ++bucket) {
            REQUIRE(set.memory().refusal(bucket).slots == 0);
            REQUIRE(set.memory().refused(bucket, 0) == 0);
            REQUIRE(set.memory().refused(bucket, 1) == 0);
        }
    }
}

TEST_CASE("more refused names than can be remembered end the Runtime") {
    Members set(kFixed);
    fill_up(set);
    for (int i = 0; i < 32; ++i) {
        REQUIRE(set.announce_in_full(0, fmt::format("more {}", i), allreduce_of({3})).value() == 1);
        set.catch_up();
    }
    const auto posted = set.announce_in_full(0, "one too many", allreduce_of({3}));
    CHECK(posted.status().code() == ErrorCode::resource_exhausted);
    CHECK(posted.status().message() ==
          "all 4 slots for tensor names are taken by pending tensors, and 32 more names were refused on some ranks and "
          "not yet announced on others: start fewer operations at a time, or raise RUEDA_SLOTS_MAX");
}

TEST_CASE("a burst of new names waits for the readers of the retirements, not for other announcements") {
    Members set(kFixed);
    const Metadata metadata = allreduce_of({3});
    for (const char* name : {"a", "b", "c", "d"}) {
        set.bind(name, metadata);
    }
    set.catch_up(0);  // member 1 has not read the log yet, so the slots cannot be used again
    const std::size_t before = set.entries().size();
    for (const char* name : {"e", "f", "g"}) {
        CHECK(set.announce_in_full(0, name, metadata).is_ok());
    }
    CHECK(set.entries().size() == before);
    CHECK(set.registrar(0).holds_announcements());
    CHECK(set.registrar(0).retry().value() == 0);  // the retry cannot succeed before member 1 reads the log
    CHECK(set.registrar(0).holds_announcements());
    set.catch_up();
    CHECK(set.registrar(0).retry().is_ok());
    CHECK_FALSE(set.registrar(0).holds_announcements());
    for (const char* name : {"e", "f", "g"}) {
        CHECK(set.announce_in_full(1, name, metadata).value() == 1);
        CHECK(set.entries().back().kind == EntryKind::first_call);
    }
}

TEST_CASE("the next rank that posts continues with waiting requests; a shutdown ends them") {
    Members set(kFixed);
    const Metadata metadata = allreduce_of({3});
    for (const char* name : {"a", "b", "c", "d"}) {
        set.bind(name, metadata);
    }
    CHECK(set.announce_in_full(0, "e", metadata, 1, 5).is_ok());
    REQUIRE(set.registrar(0).holds_announcements());
    const bool shuts_down = GENERATE(false, true);
    if (shuts_down) {
        CHECK(set.shut_down(1).value() == 1);
        // Member 1's request also waits, because member 0's request came first.
        CHECK(set.registrar(1).holds_announcements());
        CHECK(set.shut_down(0).is_ok());
        CHECK(set.entries().back().kind == EntryKind::closed);
        const std::vector<Entry> entries = set.entries();
        CHECK(entries[entries.size() - 2].kind == EntryKind::refused);
        CHECK(entries[entries.size() - 2].ticket == 5);
    } else {
        set.catch_up();
        CHECK(set.announce_in_full(1, "e", metadata).value() == 1);
        CHECK(set.entries().back().kind == EntryKind::first_call);
    }
    CHECK(set.memory().mailbox(0).taken.load() == set.memory().mailbox(0).posted.load());
}

/// A mailbox record may be reused only after every member has read the answer to it. The log has space for only one
/// answer to each record. With more answers, it could overwrite an unread entry.
TEST_CASE("a mailbox record that was answered is free when all members have read the answer") {
    Members set(kFixed);
    fill_up(set);
    set.catch_up();
    for (int i = 0; i < 8; ++i) {
        REQUIRE(set.announce_in_full(0, fmt::format("more {}", i), allreduce_of({3})).value() == 1);
    }
    CHECK(set.registrar(0).next_record() == nullptr);
    CHECK(set.registrar(0).waits_for_readers() == 1);
    set.catch_up(0);
    CHECK(set.registrar(0).next_record() == nullptr);
    set.memory().cursor(1).position.store(1);
    CHECK(set.registrar(0).next_record() != nullptr);
    CHECK(set.registrar(0).waits_for_readers() == 0);
    REQUIRE(set.announce_in_full(0, "one more", allreduce_of({3})).value() == 1);
    CHECK(set.registrar(0).next_record() == nullptr);
    CHECK(set.registrar(1).next_record() != nullptr);
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
    CHECK(set.header().slot_limit == 20);  // the reserved address space does not allow a larger table
    CHECK(set.asked_bytes == std::vector<std::uint64_t>{8 * per_slot, 4 * per_slot});
    CHECK(set.header().high_slot.load() == 17);
}

TEST_CASE("a table that the memory does not allow to grow refuses new names") {
    Members set({.members = 2, .unnamed_slots = 4, .initial_slots = 8, .slots = 16, .mailbox_records = 8});
    set.growth = failure(ErrorCode::resource_exhausted, "no room");
    set.no_memory_to_ask = GENERATE(false, true);
    for (const char* name : {"a", "b", "c", "d"}) {
        REQUIRE(set.announce_in_full(0, name, allreduce_of({3})).is_ok());
    }
    CHECK(set.announce_in_full(0, "e", allreduce_of({3})).value() == 1);
    CHECK(set.entries().back().kind == EntryKind::exhausted);
    CHECK(set.entries().back().bytes == 8);
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
    CHECK(state_of(set, 6) == SlotState::bound);  // slot 6 now belongs to the new name
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
            // No other slot may hold this name.
            for (std::uint32_t other = 4; other < 8; ++other) {
                const SlotRecord& page = set.memory().record(other);
                REQUIRE((other == slot || state_of(set, other) != SlotState::bound ||
                         std::string_view(page.name, page.name_bytes) != name));
            }
        }
        // A name that has a slot must not be announced in full (with the name) again. Therefore the test causes a
        // mismatch, which releases the names before the next round.
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
