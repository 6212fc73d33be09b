// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <catch2/catch.hpp>
#include <functional>
#include <vector>

#include "tests/core/interleavings/explored_set.hpp"

/// Ranks announce an operation whose name has a slot. Each announcement must be counted once. The log must contain one
/// call of each operation. While a rank reads an announcement, the memory of this announcement must not change.
namespace rueda::core::test {
namespace {

using Catch::Matchers::Contains;

template <std::uint32_t members>
struct Announcing : ExploredSet {
    Announcing() : ExploredSet({.members = members, .unnamed_slots = 1, .slots = 2, .mailbox_records = 1}) {
        for (std::uint32_t rank = 0; rank < members; ++rank) {
            for (int parity = 0; parity < 2; ++parity) {
                explorer::label(&place[rank][static_cast<std::size_t>(parity)], "place",
                                static_cast<int>(rank) * 2 + parity);
            }
        }
    }
    std::array<std::array<ExploredPlain<std::uint64_t>, 2>, members> place;
    std::array<std::uint32_t, 4> called_by_last{};
};

/// Each rank announces all generations (uses of the slot) one after another. It announces the next generation as soon
/// as the log contains the call of the previous one.
template <std::uint32_t members>
Exploration announce(std::uint64_t generations, std::uint64_t parity_mask, const Options& options) {
    using State = Announcing<members>;
    std::vector<std::function<void(State&)>> bodies;
    for (std::uint32_t rank = 0; rank < members; ++rank) {
        bodies.emplace_back([=](State& s) {
            Log<ExploredAtomics> log(s.memory, rank);
            for (std::uint64_t generation = 1; generation <= generations; ++generation) {
                s.place[rank][generation & parity_mask].write(100 * generation + rank);
                const auto call = [generation] {
                    return std::optional(ReadyCall<ExploredAtomics>{
                        .entry = {EntryKind::call, 0, 0, static_cast<std::uint32_t>(generation)}});
                };
                if (count_announcement(
                        s.memory, log, {.slot = 0, .counted = generation}, [] {}, call) == Counted::called) {
                    ++s.called_by_last[generation];
                }
                while (!s.log.is_published(generation - 1)) {
                    ExploredAtomics::pause();
                }
                RUEDA_EXPLORER_REQUIRE(s.log.read(generation - 1).ticket == generation);
                for (std::uint32_t other = 0; other < members; ++other) {
                    RUEDA_EXPLORER_REQUIRE(s.place[other][generation & parity_mask].read() == 100 * generation + other);
                }
            }
        });
    }
    return explore<State>(
        [](State&) {}, bodies,
        [=](State& s) {
            RUEDA_EXPLORER_REQUIRE(s.entries().size() == generations);
            RUEDA_EXPLORER_REQUIRE(ArrivalCount::arrivals(s.memory.arrivals(0).count.load()) == generations * members);
            for (std::uint64_t generation = 1; generation <= generations; ++generation) {
                RUEDA_EXPLORER_REQUIRE(s.called_by_last[generation] == 1);
            }
        },
        options);
}

TEST_CASE("two ranks, three generations: one call each, and two places are enough", "[unit]") {
    for (const Orders memory : {Orders::sequentially_consistent, Orders::store_buffers}) {
        const auto result = announce<2>(3, 1, {.memory = memory});
        INFO(result.report);
        CHECK(result.passed());
        REQUIRE(result.exhausted);
        // There are at least 2 × 2 × 2 schedules: in each of the three generations, either rank can be last.
        CHECK(result.schedules >= 8);
    }
}

TEST_CASE("three ranks announce two generations in the same way", "[unit]") {
    const auto result = announce<3>(2, 1, {});
    INFO(result.report);
    CHECK(result.passed());
    REQUIRE(result.exhausted);
    // There are at least 6 × 6 schedules: in each of the two generations, the three announcements can arrive in six
    // orders.
    CHECK(result.schedules >= 36);
}

TEST_CASE("with one place, a fast rank would write what a slow one reads", "[unit]") {
    const auto result = announce<2>(2, 0, {});
    CHECK(result.failure == Failure::race);
    CHECK_THAT(result.report, Contains("data race on place["));
}

}  // namespace
}  // namespace rueda::core::test
