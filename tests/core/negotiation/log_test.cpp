// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/negotiation/log.hpp"

#include <catch2/catch.hpp>

#include "core/negotiation/batch_end.hpp"
#include "tests/core/negotiation/members.hpp"

namespace rueda::core::test {
namespace {

constexpr NegotiationExtent kSmall = {
    .members = 2, .unnamed_slots = 4, .initial_slots = 5, .slots = 5, .mailbox_records = 2};

TEST_CASE("entries come back as they were appended, in order") {
    Members set(kSmall);
    Log<Atomics> log(set.memory());
    CHECK_FALSE(log.is_published(0));
    CHECK(log.append({EntryKind::call, 3, 0, 0, Fusion::adasums, 4096}) == 0);
    CHECK(log.append({EntryKind::refused, kNoSlot, 1, 77}) == 1);
    CHECK(log.is_published(0));
    CHECK(log.is_published(1));
    CHECK_FALSE(log.is_published(2));
    const Entry call = log.read(0);
    CHECK(call.kind == EntryKind::call);
    CHECK(call.slot == 3);
    CHECK(call.fusion == Fusion::adasums);
    CHECK(call.bytes == 4096);
    const Entry refused = log.read(1);
    CHECK(refused.kind == EntryKind::refused);
    CHECK(refused.slot == kNoSlot);
    CHECK(refused.rank == 1);
    CHECK(refused.ticket == 77);
}

TEST_CASE("a look at an entry finds it from its publication until it is written over") {
    Members set(kSmall);
    Log<Atomics> log(set.memory());
    CHECK_FALSE(log.peek(0).has_value());
    log.append({EntryKind::mismatch, 3});
    REQUIRE(log.peek(0).has_value());
    CHECK(log.peek(0)->kind == EntryKind::mismatch);
    CHECK(log.peek(0)->slot == 3);
    for (int i = 0; i < 16; ++i) {
        log.append({EntryKind::call, 4});
    }
    CHECK_FALSE(log.peek(0).has_value());
    CHECK(log.peek(16)->slot == 4);
}

TEST_CASE("the first end of a batch wins, and what earlier rounds of the ring left there counts as open") {
    Members set(kSmall);
    Log<Atomics> log(set.memory());
    REQUIRE(kSmall.log_entries() == 16);  // 2 × 5 + 2 × 2 + 2
    for (std::uint64_t round = 0; round < 3; ++round) {
        const std::uint64_t begin = round * 16;
        for (std::uint64_t i = 0; i < 16; ++i) {
            CHECK(log.append({EntryKind::call, static_cast<std::uint32_t>(i)}) == begin + i);
        }
        CHECK(log.end_of_batch(begin) == Log<Atomics>::kOpen);
        CHECK(log.close_batch(begin, begin + 16) == begin + 16);
        CHECK(log.close_batch(begin, begin + 3) == begin + 16);
        CHECK(log.end_of_batch(begin) == begin + 16);
    }
    CHECK_FALSE(log.is_published(0));  // an entry of the second round has overwritten entry 0 in the ring
}

TEST_CASE("an appender that begins a batch can close it behind its entry") {
    Members set(kSmall);
    Log<Atomics> log(set.memory());
    CHECK(log.append({EntryKind::call, 1}, 0) == 0);
    CHECK(log.end_of_batch(0) == 1);
    // the entry says that its batch begins at position 5, which is wrong
    CHECK(log.append({EntryKind::call, 2}, 5) == 1);
    CHECK(log.end_of_batch(1) == Log<Atomics>::kOpen);
}

TEST_CASE("a batch ends before an entry of another kind") {
    Members set({.members = 2, .unnamed_slots = 4, .initial_slots = 20, .slots = 20, .mailbox_records = 2});
    Log<Atomics> log(set.memory());
    const Metadata sum = allreduce_of({4});
    Metadata average = sum;
    average.reduce_op = static_cast<std::uint8_t>(ReduceOp::average);
    Metadata adasum = sum;
    adasum.reduce_op = static_cast<std::uint8_t>(ReduceOp::adasum);
    Metadata broadcast = sum;
    broadcast.operation = static_cast<std::uint8_t>(collectives::Operation::broadcast);
    std::uint32_t slot = 4;
    for (const Metadata& metadata : {sum, average, adasum, adasum, sum, broadcast, broadcast, adasum}) {
        log.append({EntryKind::call, slot++, 0, 0, fusion_of(metadata), 16});
    }
    log.append({EntryKind::mismatch, slot++});
    log.append({EntryKind::call, slot++, 0, 0, fusion_of(adasum), 16});
    std::vector<std::uint64_t> ends;
    for (std::uint64_t begin = 0; begin < 8;) {
        const BatchEnd proposed = propose_batch_end(log, begin, 1024);
        CHECK(proposed.complete);
        ends.push_back(proposed.end);
        begin = proposed.end;
    }
    CHECK(ends == std::vector<std::uint64_t>{2, 4, 5, 6, 7, 8});
    CHECK(propose_batch_end(log, 9, 1024).end == 10);
    // The batch is not closed, because another adasum may follow.
    CHECK_FALSE(propose_batch_end(log, 9, 1024).complete);
}

TEST_CASE("an invalid end is recognized") {
    Members set(kSmall);
    const Log<Atomics> log(set.memory());
    CHECK(log.is_plausible_end(100, 101));
    CHECK(log.is_plausible_end(100, 116));
    CHECK_FALSE(log.is_plausible_end(100, 100));
    CHECK_FALSE(log.is_plausible_end(100, 99));
    CHECK_FALSE(log.is_plausible_end(100, 117));
}

}  // namespace
}  // namespace rueda::core::test
