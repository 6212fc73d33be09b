// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>

#include "tests/support/explorer/explorer.hpp"

namespace rueda::explorer {
namespace {

using Catch::Matchers::Contains;
using Word = ExploredAtomics::Atomic<std::uint32_t>;

// A thread sleeps until there is work. First it reads the counter `bell`, announces that it sleeps, and looks for work
// once more. Then it waits on the futex `bell` until the counter differs from the value that the thread has read.
struct Sleepers {
    Word work;
    Word asleep;
    Word bell;
};

struct SleepProtocol {
    bool looks_again = true;
    bool ticket_first = true;
    std::memory_order announce = std::memory_order_seq_cst;
};

[[nodiscard]] Exploration sleep_and_wake(const SleepProtocol& protocol, Memory memory) {
    const auto sleeper = [=](Sleepers& state) {
        while (state.work.load(std::memory_order_seq_cst) == 0) {
            std::uint32_t ticket = protocol.ticket_first ? state.bell.load(std::memory_order_seq_cst) : 0;
            state.asleep.store(1, protocol.announce);
            if (!protocol.looks_again || state.work.load(std::memory_order_seq_cst) == 0) {
                ticket = protocol.ticket_first ? ticket : state.bell.load(std::memory_order_seq_cst);
                ExploredAtomics::futex_wait(state.bell, ticket);
            }
            state.asleep.store(0, protocol.announce);
        }
    };
    const auto publisher = [=](Sleepers& state) {
        state.work.store(1, protocol.announce);
        if (state.asleep.load(std::memory_order_seq_cst) != 0) {
            state.bell.fetch_add(1, std::memory_order_seq_cst);
            ExploredAtomics::futex_wake_all(state.bell);
        }
    };
    return explore<Sleepers>(
        [](Sleepers& state) {
            label(&state.work, "work");
            label(&state.asleep, "asleep");
            label(&state.bell, "bell");
        },
        {sleeper, publisher}, [](Sleepers&) {}, {.memory = memory});
}

TEST_CASE("the right way to sleep loses no wake-up", "[unit][explorer]") {
    for (const Memory memory : {Memory::sequentially_consistent, Memory::store_buffers}) {
        const auto result = sleep_and_wake({}, memory);
        INFO(result.report);
        CHECK(result.passed());
        CHECK(result.schedules > 3);
    }
}

TEST_CASE("wrong ways to sleep are found as deadlocks", "[unit][explorer]") {
    const auto is_lost = [](const SleepProtocol& protocol, Memory memory) {
        const auto result = sleep_and_wake(protocol, memory);
        if (result.failure != Failure::none) {
            CHECK_THAT(result.report, Contains("deadlock: thread 0 sleeps on bell"));
        }
        return result.failure == Failure::deadlock;
    };
    CHECK(is_lost({.looks_again = false}, Memory::sequentially_consistent));
    CHECK(is_lost({.ticket_first = false}, Memory::sequentially_consistent));
    // On a machine without store buffers, release order would be sufficient. Every real processor has store buffers.
    CHECK_FALSE(is_lost({.announce = std::memory_order_release}, Memory::sequentially_consistent));
    CHECK(is_lost({.announce = std::memory_order_release}, Memory::store_buffers));
}

// Dekker's algorithm, from E. W. Dijkstra, Cooperating sequential processes (1965).
struct Dekker {
    std::array<Word, 2> wants;
    Word turn;
    ExploredPlain<int> counter;
};

[[nodiscard]] Exploration dekker(std::memory_order store_order, Memory memory) {
    const auto thread = [=](std::size_t mine) {
        return [=](Dekker& state) {
            const std::size_t other = 1 - mine;
            state.wants[mine].store(1, store_order);
            while (state.wants[other].load(std::memory_order_seq_cst) != 0) {
                if (state.turn.load(std::memory_order_seq_cst) != mine) {
                    state.wants[mine].store(0, store_order);
                    while (state.turn.load(std::memory_order_seq_cst) != mine) {
                        ExploredAtomics::pause();
                    }
                    state.wants[mine].store(1, store_order);
                } else {
                    ExploredAtomics::pause();
                }
            }
            state.counter.write(state.counter.read() + 1);
            state.turn.store(static_cast<std::uint32_t>(other), store_order);
            state.wants[mine].store(0, store_order);
        };
    };
    return explore<Dekker>(
        [](Dekker& state) {
            label(&state.wants[0], "wants", 0);
            label(&state.wants[1], "wants", 1);
            label(&state.turn, "turn");
            label(&state.counter, "counter");
        },
        {thread(0), thread(1)}, [](Dekker& state) { RUEDA_EXPLORER_REQUIRE(state.counter.read() == 2); },
        {.memory = memory});
}

TEST_CASE("Dekker's algorithm: right under SC, wrong on x86 with release stores", "[unit][explorer]") {
    for (const auto& [order, memory] : {std::pair{std::memory_order_release, Memory::sequentially_consistent},
                                        std::pair{std::memory_order_seq_cst, Memory::sequentially_consistent},
                                        std::pair{std::memory_order_seq_cst, Memory::store_buffers}}) {
        const auto result = dekker(order, memory);
        INFO(result.report);
        CHECK(result.passed());
        CHECK(result.schedules > 2);
    }
    const auto wrong = dekker(std::memory_order_release, Memory::store_buffers);
    CHECK(wrong.failure == Failure::race);
    CHECK_THAT(wrong.report, Contains("data race on counter") && Contains("into its buffer"));
}

// A queue with one producer, one consumer and two positions, from L. Lamport, Specifying concurrent program modules
// (1983).
struct Ring {
    static constexpr std::uint32_t kPlaces = 2;
    std::array<ExploredPlain<std::uint32_t>, kPlaces> places;
    Word written;
    Word taken;
    std::uint32_t sum = 0;
};

[[nodiscard]] Exploration ring(std::uint32_t items, std::uint32_t room, std::memory_order publish, Memory memory) {
    return explore<Ring>(
        [](Ring& state) {
            label(&state.written, "written");
            label(&state.taken, "taken");
            for (std::size_t i = 0; i < Ring::kPlaces; ++i) {
                label(&state.places[i], "places", static_cast<int>(i));
            }
        },
        {[=](Ring& state) {
             for (std::uint32_t i = 0; i < items; ++i) {
                 while (i - state.taken.load(std::memory_order_acquire) == room) {
                     ExploredAtomics::pause();
                 }
                 state.places[i % Ring::kPlaces].write(i + 1);
                 state.written.store(i + 1, publish);
             }
         },
         [=](Ring& state) {
             for (std::uint32_t i = 0; i < items; ++i) {
                 while (state.written.load(std::memory_order_acquire) == i) {
                     ExploredAtomics::pause();
                 }
                 const std::uint32_t item = state.places[i % Ring::kPlaces].read();
                 RUEDA_EXPLORER_REQUIRE(item == i + 1);
                 state.sum += item;
                 state.taken.store(i + 1, publish);
             }
         }},
        [=](Ring& state) { RUEDA_EXPLORER_REQUIRE(state.sum == items * (items + 1) / 2); }, {.memory = memory});
}

TEST_CASE("a ring of one producer and one consumer", "[unit][explorer]") {
    const Memory memory = GENERATE(Memory::sequentially_consistent, Memory::store_buffers);
    const auto right = ring(5, Ring::kPlaces, std::memory_order_release, memory);
    INFO(right.report);
    CHECK(right.passed());
    CHECK(right.schedules > 20);
    CHECK(ring(5, Ring::kPlaces, std::memory_order_relaxed, memory).failure == Failure::race);
    // This queue accepts one item more than it has places, so the producer may write to a place that the consumer is
    // reading.
    const auto wrong = ring(5, Ring::kPlaces + 1, std::memory_order_release, memory);
    CHECK((wrong.failure == Failure::race || wrong.failure == Failure::check));
}

}  // namespace
}  // namespace rueda::explorer
