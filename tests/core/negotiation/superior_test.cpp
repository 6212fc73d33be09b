// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <array>
#include <catch2/catch.hpp>
#include <string>

#include "core/negotiation/joining.hpp"
#include "tests/core/negotiation/members.hpp"

/// Tests the negotiation on one of several hosts, where only the leader can be the registrar.
namespace rueda::core::test {
namespace {

struct Nobody final : Superior {
    Status complete(std::uint32_t /*slot*/, std::uint64_t /*generation*/, bool /*changed*/) override { return {}; }
    void retired(std::uint32_t /*slot*/) override {}
    void shutting_down(std::uint32_t /*member*/) override {}
    void closed() override {}
    void settled() override {}
};

TEST_CASE("an alltoall of several hosts leaves its splits nowhere in the arena") {
    constexpr NegotiationExtent kExtent = {.members = 2,
                                           .unnamed_slots = 4,
                                           .initial_slots = 8,
                                           .slots = 16,
                                           .mailbox_records = 4,
                                           .attachments = 64,
                                           .attachment_bytes = 64};
    Members set(kExtent);
    Nobody nobody;
    set.registrar(0).report_to(nobody);
    constexpr auto kUntouched = std::byte{0x5A};
    const std::span attachments(set.memory().attachment(0),
                                std::size_t{kExtent.attachments} * kExtent.attachment_bytes);
    std::fill(attachments.begin(), attachments.end(), kUntouched);

    Metadata metadata = allreduce_of({3});
    metadata.operation = static_cast<std::uint8_t>(collectives::Operation::alltoall);
    for (std::uint32_t member = 0; member < kExtent.members; ++member) {
        REQUIRE(set.announce_in_full(member, "exchanged", metadata).is_ok());
    }
    const auto served = set.registrar(0).serve();
    INFO(served.status().message());
    REQUIRE(served.is_ok());
    // The table of this set has no attachments, so nothing may be written to the memory behind the table.
    CHECK(std::all_of(attachments.begin(), attachments.end(), [](std::byte byte) { return byte == kUntouched; }));
}

/// A member settles when it has joined and has no own operation pending. When the last member of a host settles, the
/// leader is notified. The leader ends the join only after the root of the leaders' tree has decided that the join
/// ends.
TEST_CASE("on several hosts the root ends the joins") {
    constexpr NegotiationExtent kExtent = {.members = 2,
                                           .unnamed_slots = 4,
                                           .initial_slots = 8,
                                           .slots = 16,
                                           .mailbox_records = 4,
                                           .attachments = 64,
                                           .attachment_bytes = 64};
    struct Settling final : Superior {
        Status complete(std::uint32_t slot, std::uint64_t /*generation*/, bool /*changed*/) override {
            completed = slot;
            return {};
        }
        void retired(std::uint32_t /*slot*/) override {}
        void shutting_down(std::uint32_t /*member*/) override {}
        void closed() override {}
        void settled() override { ++times; }
        int times = 0;
        std::uint32_t completed = kNoSlot;
    };
    Members set(kExtent);
    Settling superior;
    Registrar<base::StdAtomics>& registrar = set.registrar(0);
    registrar.report_to(superior);
    const SetHeader<base::StdAtomics>& header = set.memory().header();
    for (int round = 1; round <= 2; ++round) {
        set_joined(set.memory(), 1);
        CHECK(header.last_joined.load() == 0);
        set_joined(set.memory(), 0);
        CHECK(header.last_joined.load() == 1);  // member 0 joined last

        // Other hosts announced operations before the join ended. The joined members must announce these operations,
        // too, but without data ("stand in").
        const std::uint64_t asked = registrar.append_wanted(kNoSlot, 1);
        CHECK(set.entries().back().kind == EntryKind::wanted);
        CHECK(asked == set.log_end());
        const std::string name = "asked for " + std::to_string(round);
        REQUIRE(set.stand_in_in_full(1, name).is_ok());
        REQUIRE(set.stand_in_in_full(0, name).is_ok());
        superior.completed = kNoSlot;
        REQUIRE(registrar.serve().is_ok());
        REQUIRE(superior.completed != kNoSlot);
        registrar.append_calls(
            std::array{Registrar<base::StdAtomics>::Call{.slot = superior.completed, .uncounted = 3}});
        CHECK(set.entries().back().kind == EntryKind::first_call);
        CHECK(set.entries().back().uncounted == 3);
        set.catch_up();

        REQUIRE(set.settle(1).is_ok());
        REQUIRE(registrar.serve().is_ok());
        CHECK(superior.times == round - 1);
        REQUIRE(set.settle(0).is_ok());
        REQUIRE(registrar.serve().is_ok());
        CHECK(superior.times == round);
        CHECK(is_away(set.memory(), 0));
        registrar.end_joins(7);
        CHECK(set.entries().back().kind == EntryKind::all_joined);
        CHECK(set.entries().back().rank == 7);
        CHECK_FALSE(is_away(set.memory(), 0));
        CHECK(header.last_joined.load() == 0);
        set.catch_up();
    }
}

TEST_CASE("on several hosts what needs ranks that have joined is refused, and is no first sight any more") {
    constexpr NegotiationExtent kExtent = {.members = 1,
                                           .unnamed_slots = 4,
                                           .initial_slots = 8,
                                           .slots = 16,
                                           .mailbox_records = 4,
                                           .attachments = 64,
                                           .attachment_bytes = 64};
    Members set(kExtent);
    Nobody nobody;
    set.registrar(0).report_to(nobody);
    REQUIRE(set.stand_in_in_full(0, "model").is_ok());
    REQUIRE(set.registrar(0).serve().is_ok());
    const std::uint32_t slot = kExtent.unnamed_slots;
    REQUIRE(set.memory().label(slot).state().state == SlotState::first_sight);
    set.registrar(0).append_refusal(EntryKind::lacks_joined, slot, 1, ErrorCode::invalid_argument);
    CHECK(set.entries().back().kind == EntryKind::lacks_joined);
    CHECK(set.entries().back().rank == static_cast<std::uint32_t>(ErrorCode::invalid_argument));
    CHECK(set.memory().label(slot).state().state == SlotState::retired);
}

TEST_CASE("on several hosts a name without a slot ends the job, and the text says what to change") {
    constexpr NegotiationExtent kExtent = {.members = 2,
                                           .unnamed_slots = 4,
                                           .initial_slots = 6,
                                           .slots = 8,
                                           .mailbox_records = 16,
                                           .attachments = 64,
                                           .attachment_bytes = 64};
    const bool has_memory = GENERATE(true, false);
    const int names = has_memory ? 4 : 2;
    Members set(kExtent);
    set.growth = has_memory ? Status() : failure(ErrorCode::resource_exhausted, "no room");
    Nobody nobody;
    set.registrar(0).report_to(nobody);
    for (int i = 0; i < names; ++i) {
        REQUIRE(set.announce_in_full(1, "pending " + std::to_string(i), allreduce_of({3})).is_ok());
    }
    REQUIRE(set.registrar(0).serve().is_ok());
    REQUIRE(set.announce_in_full(1, "one more", allreduce_of({3})).is_ok());
    const Status status = set.registrar(0).serve().status();
    CHECK(status.code() == ErrorCode::resource_exhausted);
    CHECK(status.message() ==
          (has_memory
               ? "rank 1, tensor 'one more': all 4 slots for tensor names of its host are taken by pending tensors, "
                 "and RUEDA_SLOTS_MAX is 4; the job ends, because other hosts may have a slot for this name: start "
                 "fewer operations at a time, or set RUEDA_SLOTS_MAX to more, as ruedarun -x RUEDA_SLOTS_MAX=VALUE does"
               : "rank 1, tensor 'one more': all 2 slots for tensor names of its host are taken by pending tensors, "
                 "there is no memory for more, and RUEDA_SLOTS_MAX is 4; the job ends, because other hosts may have a "
                 "slot for this name: start fewer operations at a time, or give the host more memory"));
}

}  // namespace
}  // namespace rueda::core::test
