// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/negotiation/registrar.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "tests/core/negotiation/members.hpp"

namespace rueda::core::test {
namespace {

constexpr NegotiationExtent kThree = {
    .members = 3, .unnamed_slots = 4, .initial_slots = 8, .slots = 16, .mailbox_records = 4};

TEST_CASE("a name is called when all members have announced it in full, and then has a slot") {
    Members set(kThree);
    const Metadata metadata = allreduce_of({3, 4});
    CHECK(set.announce_in_full(1, "weight", metadata).value() == 0);
    CHECK(set.announce_in_full(0, "weight", metadata).value() == 0);
    CHECK(set.entries().empty());
    CHECK(set.memory().record(4).state == static_cast<std::uint32_t>(SlotState::first_sight));
    CHECK(set.announce_in_full(2, "weight", metadata).value() == 1);
    REQUIRE(set.entries().size() == 1);
    const Entry call = set.entries()[0];
    CHECK(call.kind == EntryKind::first_call);
    CHECK(call.slot == 4);  // the first slot for names; the lower slots are for unnamed operations
    CHECK(call.fusion == Fusion::allreduces);
    CHECK(call.bytes == 48);
    const SlotRecord& record = set.memory().record(4);
    CHECK(record.state == static_cast<std::uint32_t>(SlotState::bound));
    CHECK(std::string_view(record.name, record.name_bytes) == "weight");
    CHECK(agree(record.metadata, metadata));
    CHECK(ArrivalCount::arrivals(set.memory().arrivals(4).count.load()) == 0);
}

TEST_CASE("a bound name is called by its last arriver, without the registrar") {
    Members set(kThree);
    const std::uint32_t slot = set.bind("weight", allreduce_of({3}));
    for (std::uint64_t generation = 1; generation < 5; ++generation) {
        for (const std::uint32_t member : {2U, 0U, 1U}) {
            CHECK(set.arrive_at(member, slot, generation) == (member == 1 ? Arrival::last : Arrival::counted));
        }
    }
    CHECK(set.entries().size() == 1);
    CHECK(ArrivalCount::arrivals(set.memory().arrivals(slot).count.load()) == 12);
}

TEST_CASE("names that arrive in different orders are matched") {
    Members set(kThree);
    const Metadata metadata = allreduce_of({3});
    // All three names have the same length, and so the same hash.
    CHECK(set.announce_in_full(0, "aa", metadata).value() == 0);
    CHECK(set.announce_in_full(1, "bb", metadata).value() == 0);
    CHECK(set.announce_in_full(2, "cc", metadata).value() == 0);
    CHECK(set.announce_in_full(0, "bb", metadata).value() == 0);
    CHECK(set.announce_in_full(2, "bb", metadata).value() == 1);
    CHECK(set.announce_in_full(1, "cc", metadata).value() == 0);
    CHECK(set.announce_in_full(1, "aa", metadata).value() == 0);
    CHECK(set.announce_in_full(2, "aa", metadata).value() == 1);
    CHECK(set.announce_in_full(0, "cc", metadata).value() == 1);
    REQUIRE(set.entries().size() == 3);
    CHECK(set.entries()[0].slot == 5);
    CHECK(set.entries()[1].slot == 4);
    CHECK(set.entries()[2].slot == 6);
}

TEST_CASE("members that disagree at first sight get a mismatch, and the name is free again") {
    Members set(kThree);
    CHECK(set.announce_in_full(0, "weight", allreduce_of({3})).is_ok());
    CHECK(set.announce_in_full(1, "weight", allreduce_of({4})).is_ok());
    CHECK(set.announce_in_full(2, "weight", allreduce_of({3})).value() == 1);
    REQUIRE(set.entries().size() == 1);
    CHECK(set.entries()[0].kind == EntryKind::mismatch);
    CHECK(set.entries()[0].slot == 4);
    CHECK(set.memory().record(4).state == static_cast<std::uint32_t>(SlotState::retired));
    // The slot keeps the announced metadata, because the error message needs them.
    CHECK(Registrar<Atomics>::announced_metadata(set.memory(), 4, 1, 0).shape[0] == 4);
    CHECK(Registrar<Atomics>::announced_metadata(set.memory(), 4, 2, 0).shape[0] == 3);
    CHECK(set.bind("weight", allreduce_of({5})) == 5);
}

TEST_CASE("a change that all members make is called once more, and gives up the slot") {
    Members set(kThree);
    const std::uint32_t slot = set.bind("weight", allreduce_of({3}));
    set.call(slot, 1);
    const Metadata changed = allreduce_of({6});
    CHECK(set.arrive_at(1, slot, 2, 1, &changed) == Arrival::counted);
    CHECK(set.arrive_at(0, slot, 2, 1, &changed) == Arrival::counted);
    CHECK(set.arrive_at(2, slot, 2, 1, &changed) == Arrival::last_changed);
    CHECK(set.resolve(2, slot, 2).value() == 1);
    const Entry last = set.entries().back();
    CHECK(last.kind == EntryKind::changed_call);
    CHECK(last.slot == slot);
    CHECK(last.bytes == 24);
    CHECK(set.memory().record(slot).state == static_cast<std::uint32_t>(SlotState::retired));
    CHECK(set.bind("weight", changed) != slot);
}

TEST_CASE("a change that only some ranks make is a mismatch, whichever rank comes last") {
    for (const std::uint32_t changing : {0U, 1U, 2U}) {
        Members set(kThree);
        const std::uint32_t slot = set.bind("weight", allreduce_of({3}));
        const Metadata changed = allreduce_of({6});
        for (std::uint32_t member = 0; member < 3; ++member) {
            const Arrival arrival = set.arrive_at(member, slot, 1, 1, member == changing ? &changed : nullptr);
            CHECK(arrival == (member == 2 ? Arrival::last_changed : Arrival::counted));
        }
        CHECK(set.resolve(2, slot, 1).value() == 1);
        CHECK(set.entries().back().kind == EntryKind::mismatch);
        CHECK(set.entries().back().slot == slot);
        CHECK(set.memory().record(slot).state == static_cast<std::uint32_t>(SlotState::retired));
        for (std::uint32_t member = 0; member < 3; ++member) {
            CHECK(Registrar<Atomics>::announced_metadata(set.memory(), slot, member, 1).shape[0] ==
                  (member == changing ? 6 : 3));
        }
    }
}

TEST_CASE("a change to the metadata that the name already has is no mismatch") {
    Members set(kThree);
    const std::uint32_t slot = set.bind("weight", allreduce_of({3}));
    const Metadata same = allreduce_of({3});
    CHECK(set.arrive_at(0, slot, 1, 1, &same) == Arrival::counted);
    CHECK(set.arrive_at(1, slot, 1) == Arrival::counted);
    CHECK(set.arrive_at(2, slot, 1) == Arrival::last_changed);
    CHECK(set.resolve(2, slot, 1).is_ok());
    CHECK(set.entries().back().kind == EntryKind::changed_call);
}

TEST_CASE(
    "what all members agree on and none can do is never called: at first sight, as a change, and without a name") {
    Metadata impossible = allreduce_of({3}, DType::boolean);
    impossible.reduce_op = static_cast<std::uint8_t>(ReduceOp::sum);
    Members set(kThree);
    for (std::uint32_t member = 0; member < 3; ++member) {
        CHECK(set.announce_in_full(member, "mask", impossible).value() == (member == 2 ? 1 : 0));
    }
    CHECK(set.entries().back().kind == EntryKind::mismatch);
    const std::uint32_t first = set.entries().back().slot;
    CHECK(set.memory().record(first).state == static_cast<std::uint32_t>(SlotState::retired));
    const std::uint32_t slot = set.bind("mask", allreduce_of({3}));
    for (std::uint32_t member = 0; member < 3; ++member) {
        CHECK(set.arrive_at(member, slot, 1, 1, &impossible) ==
              (member == 2 ? Arrival::last_changed : Arrival::counted));
    }
    CHECK(set.resolve(1, slot, 1).value() == 1);
    CHECK(set.entries().back().kind == EntryKind::mismatch);
    CHECK(set.memory().record(slot).state == static_cast<std::uint32_t>(SlotState::retired));
    for (std::uint32_t member = 0; member < 3; ++member) {
        CHECK(set.arrive_at(member, 2, 1, 1, &impossible) == (member == 2 ? Arrival::last : Arrival::counted));
    }
    CHECK(set.resolve(2, 2, 1).value() == 1);
    CHECK(set.entries().back().kind == EntryKind::mismatch);
    CHECK(set.memory().record(2).state == static_cast<std::uint32_t>(SlotState::bound));
}

TEST_CASE("unnamed slots outlive a mismatch") {
    Members set(kThree);
    const Metadata a = allreduce_of({3});
    const Metadata b = allreduce_of({4});
    CHECK(set.arrive_at(0, 2, 1, 1, &a) == Arrival::counted);
    CHECK(set.arrive_at(1, 2, 1, 1, &b) == Arrival::counted);
    CHECK(set.arrive_at(2, 2, 1, 1, &a) == Arrival::last);
    CHECK(set.resolve(2, 2, 1).value() == 1);
    CHECK(set.entries().back().kind == EntryKind::mismatch);
    CHECK(set.memory().record(2).state == static_cast<std::uint32_t>(SlotState::bound));
    for (std::uint32_t member = 0; member < 3; ++member) {
        CHECK(set.arrive_at(member, 2, 2, 1, &b) == (member == 2 ? Arrival::last : Arrival::counted));
    }
    CHECK(set.resolve(0, 2, 2).value() == 1);
    CHECK(set.entries().back().kind == EntryKind::call);
    CHECK(set.entries().back().bytes == 16);
}

TEST_CASE("requests that no working rank posts end the Runtime with their reason") {
    const auto message = [](const std::function<Result<std::uint64_t>(Members&)>& request) {
        Members set(kThree);
        const auto posted = request(set);
        CHECK(posted.status().code() == ErrorCode::internal);
        return posted.status().message();
    };
    CHECK(message([](Members& set) { return set.resolve(0, 16, 1); }) ==
          "rank 0 asked to compare slot 16, which is not bound");
    CHECK(message([](Members& set) { return set.resolve(0, 5, 1); }) ==
          "rank 0 asked to compare slot 5, which is not bound");
    CHECK(message([](Members& set) {
              const std::uint32_t slot = set.bind("weight", allreduce_of({3}));
              static_cast<void>(set.arrive_at(2, slot, 1));
              return set.resolve(2, slot, 1);
          }) == "rank 2 asked to compare generation 1 of slot 4, in which 1 announcements were counted");
    CHECK(message([](Members& set) {
              set.registrar(1).next_record()->kind = 3;
              set.memory().mailbox(1).posted.store(7);
              return set.registrar(1).post();
          }) == "rank 1 says that it posted 8 requests after 0 were handled");
    CHECK(message([](Members& set) {
              set.bind("weight", allreduce_of({3}));
              return set.announce_in_full(1, "weight", allreduce_of({3}));
          }) == "rank 1 announced 'weight' in full, but its slot 4 is in state 2");
    CHECK(message([](Members& set) {
              static_cast<void>(set.announce_in_full(1, "weight", allreduce_of({3})));
              return set.announce_in_full(1, "weight", allreduce_of({3}));
          }) == "rank 1 announced 'weight' in full, but its slot 4 is in state 1");
    const std::string implausible = "rank 2 announced a tensor with a name of ";
    CHECK(message([](Members& set) { return set.announce_in_full(2, "", allreduce_of({3})); }) ==
          implausible + "0 bytes or metadata that no working rank writes");
    CHECK(message([](Members& set) {
              Metadata broken = allreduce_of({3});
              broken.shape[0] = -5;
              return set.announce_in_full(2, "weight", broken);
          }) == implausible + "6 bytes or metadata that no working rank writes");
    CHECK(message([](Members& set) {
              set.registrar(1).next_record()->kind = 9;
              return set.registrar(1).post();
          }) == "rank 1 posted a request of unknown kind 9");
}

/// A shape with 255 dimensions must not be read, because the array of extents is much shorter.
TEST_CASE("metadata that no working rank writes is not compared, and its rank is named") {
    const std::string expected = "rank 1 announced metadata that no working rank writes, in slot ";
    Metadata broken = allreduce_of({3});
    broken.ndim = 255;
    Members named(kThree);
    const std::uint32_t slot = named.bind("weight", allreduce_of({3}));
    for (std::uint32_t member = 0; member < 3; ++member) {
        static_cast<void>(named.arrive_at(member, slot, 1, 1, &broken));
        named.memory().place(slot, member, 1).metadata.ndim = member == 1 ? 255 : 1;
    }
    CHECK(named.resolve(2, slot, 1).status().message() == expected + "4");

    Members unnamed(kThree);
    for (std::uint32_t member = 0; member < 3; ++member) {
        static_cast<void>(unnamed.arrive_at(member, 2, 1, 1, &broken));
        unnamed.memory().place(2, member, 1).metadata.ndim = member == 1 ? 255 : 1;
    }
    CHECK(unnamed.resolve(2, 2, 1).status().message() == expected + "2");

    // The metadata of a full announcement can also be damaged before the registrar compares them.
    Members first(kThree);
    for (std::uint32_t member = 0; member < 2; ++member) {
        REQUIRE(first.announce_in_full(member, "weight", allreduce_of({3})).is_ok());
    }
    first.memory().place(4, 1, 0).metadata.dtype = 99;
    const auto posted = first.announce_in_full(2, "weight", allreduce_of({3}));
    CHECK(posted.status().code() == ErrorCode::internal);
    CHECK(posted.status().message() == expected + "4");
}

TEST_CASE("a mailbox fills while another rank is the registrar, which then handles all of it") {
    Members set(kThree);
    const Metadata metadata = allreduce_of({3});
    set.header().requests.store(1);  // imitates a slow registrar: rank 2 is the registrar but does nothing
    for (int i = 0; i < 4; ++i) {
        CHECK(set.announce_in_full(0, fmt::format("t{}", i), metadata).value() == 0);
    }
    CHECK(set.registrar(0).next_record() == nullptr);
    CHECK(set.announce_in_full(1, "t0", metadata).value() == 0);  // the other member's mailbox still has space
    CHECK(set.memory().record(4).state == static_cast<std::uint32_t>(SlotState::unused));
    // Rank 2 is no longer the registrar. Its next request makes rank 2 the registrar again.
    set.header().requests.store(0);
    CHECK(set.announce_in_full(2, "t0", metadata).value() == 1);
    CHECK(set.entries().back().kind == EntryKind::first_call);
    CHECK(set.memory().header().high_slot.load() == 8);  // each of the four names has a slot
    CHECK(set.registrar(0).next_record() != nullptr);
    CHECK(set.header().requests.load() == 0);
}

}  // namespace
}  // namespace rueda::core::test
