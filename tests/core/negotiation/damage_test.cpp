// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests functions that read shared tables. The tables contain values that no correct rank would write. Every such
// function must return and report the damage.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <string>

#include "tests/core/negotiation/members.hpp"

namespace rueda::core::test {
namespace {

constexpr NegotiationExtent kThree = {
    .members = 3, .unnamed_slots = 4, .initial_slots = 8, .slots = 16, .mailbox_records = 4};

void take_all_entries(const Members& set) {
    for (std::uint64_t position = 0; position < set.extent().log_entries(); ++position) {
        set.memory().entry(position).sequence.store(std::uint64_t{1} << 55);
    }
}

TEST_CASE("in a log without a free entry, an append and the search for the end return") {
    Members set(kThree);
    take_all_entries(set);
    Log<Atomics> log(set.memory(), 1);
    CHECK(log.end(0) == set.extent().log_entries());
    CHECK_FALSE(log.is_damaged());
    CHECK(log.append({EntryKind::call, 4}) == Log<Atomics>::kNowhere);
    CHECK(log.is_damaged());
    Log<Atomics> of_batches(set.memory(), 0);
    CHECK(of_batches.append_batch(std::array{Entry{EntryKind::call, 4}}) == Log<Atomics>::kNowhere);
}

TEST_CASE("a registrar that finds no room in the log ends the job") {
    Members set(kThree);
    for (std::uint32_t member = 0; member < 2; ++member) {
        REQUIRE(set.announce_in_full(member, "weight", allreduce_of({3})).is_ok());
    }
    take_all_entries(set);
    const auto posted = set.announce_in_full(2, "weight", allreduce_of({3}));
    CHECK(posted.status().code() == ErrorCode::internal);
    CHECK(posted.status().message() ==
          "the log is damaged: rank 2 finds no room in it, which cannot happen if all ranks are correct");
    CHECK(set.registrar(2).is_damaged());
}

TEST_CASE("a mailbox of which more was handled than posted has no record") {
    for (const std::uint64_t taken : {std::uint64_t{1}, std::uint64_t{5}, ~std::uint64_t{0}}) {
        Members set(kThree);
        set.memory().mailbox(1).taken.store(taken);
        CHECK(set.registrar(0).next_record() != nullptr);
        CHECK(set.registrar(1).next_record() == nullptr);
        REQUIRE(set.registrar(1).is_damaged());
        CHECK(set.registrar(1).damage().message() ==
              "the mailbox is damaged: rank 1 finds no room in it, which cannot happen if all ranks are correct");
        CHECK(set.registrar(1).waits_for_readers() == 0);
    }
    Members set(kThree);
    set.memory().mailbox(1).posted.store(1000);
    CHECK(set.registrar(1).next_record() == nullptr);
    CHECK(set.registrar(1).is_damaged());
}

TEST_CASE("a shutdown reads no slot that does not exist") {
    Members set(kThree);
    REQUIRE(set.announce_in_full(1, "weight", allreduce_of({3})).is_ok());
    set.header().high_slot.store(0xFFFF'FFFF);
    CHECK(set.shut_down(0).is_ok());
    const auto entries = set.entries();
    CHECK(entries.front().kind == EntryKind::closing);
    CHECK(std::count_if(entries.begin(), entries.end(),
                        [](const Entry& entry) { return entry.kind == EntryKind::failed && entry.slot == 4; }) == 1);
}

/// Announces an operation with a new name. Returns the message of the error.
std::string refusal_of_new_name(Members& set) {
    return set.announce_in_full(0, "new", allreduce_of({3})).status().message();
}

TEST_CASE("the table of slots is compared with what is possible") {
    constexpr const char* kDamaged = "the table of slots is damaged: ";
    const auto damaged = [&](auto&& damage) {
        Members set(kThree);
        damage(set);
        return refusal_of_new_name(set);
    };
    CHECK(damaged([](Members& set) { set.header().high_slot.store(17); }) ==
          kDamaged + std::string("0 free and 0 retired, of 16"));
    CHECK(damaged([](Members& set) {
              set.header().retired_count = 1;
              set.memory().retired_slot(0) = 1000;
          }) == kDamaged + std::string("it has slot 1000, of 16"));
    CHECK(damaged([](Members& set) {  // one slot is in the list of retired slots, although all 16 are free
              set.header().retired_count = 1;
              set.memory().retired_slot(0) = 4;
              set.header().free_count = 16;
          }) == kDamaged + std::string("16 free and 1 retired, of 16"));
    CHECK(damaged([](Members& set) {
              set.header().free_count = 1;
              set.memory().free_slot(0) = 3;
          }) == kDamaged + std::string("it has slot 3, of 16"));
}

}  // namespace
}  // namespace rueda::core::test
