// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <catch2/catch.hpp>

#include "tests/core/negotiation/members.hpp"

/// A set on several hosts, whose leader is the only registrar.
namespace rueda::core::test {
namespace {

struct Nobody final : Superior {
    Status complete(std::uint32_t /*slot*/, std::uint64_t /*generation*/, bool /*changed*/) override { return {}; }
    void retired(std::uint32_t /*slot*/) override {}
    void shutting_down(std::uint32_t /*member*/) override {}
    void closed() override {}
};

TEST_CASE("an alltoall of several hosts leaves its splits nowhere in the arena") {
    constexpr NegotiationExtent kLed = {.members = 2,
                                        .unnamed_slots = 4,
                                        .initial_slots = 8,
                                        .slots = 16,
                                        .mailbox_records = 4,
                                        .attachments = 64,
                                        .attachment_bytes = 64};
    Members set(kLed);
    Nobody nobody;
    set.registrar(0).report_to(nobody);
    constexpr auto kUntouched = std::byte{0x5A};
    const std::span attachments(set.memory().attachment(0), std::size_t{kLed.attachments} * kLed.attachment_bytes);
    std::fill(attachments.begin(), attachments.end(), kUntouched);

    Metadata metadata = allreduce_of({3});
    metadata.operation = static_cast<std::uint8_t>(collectives::Operation::alltoall);
    for (std::uint32_t member = 0; member < kLed.members; ++member) {
        REQUIRE(set.announce_in_full(member, "exchanged", metadata).is_ok());
    }
    const auto served = set.registrar(0).serve();
    INFO(served.status().message());
    REQUIRE(served.is_ok());
    // That table has no room there.
    CHECK(std::all_of(attachments.begin(), attachments.end(), [](std::byte byte) { return byte == kUntouched; }));
}

}  // namespace
}  // namespace rueda::core::test
