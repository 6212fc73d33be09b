// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <catch2/catch.hpp>

#include "base/shared_memory/attention.hpp"
#include "base/shared_memory/local_event.hpp"
#include "core/negotiation/ringing.hpp"
#include "tests/core/interleavings/explored_set.hpp"
#include "tests/support/explorer/check_passed.hpp"

/// A thread sleeps until the log has a new entry, while other threads publish entries. The futexes have no timeout, so
/// a lost wake-up is a deadlock.
namespace rueda::core::test {
namespace {

using base::AttentionState;
using Catch::Matchers::Contains;

constexpr NegotiationExtent kTiny = {.members = 2, .unnamed_slots = 0, .slots = 1, .mailbox_records = 1};

/// A copy of the steps of base::Attention and Log. A test can choose weaker memory orders or another order of the
/// steps, to show that the shipped choice is necessary.
struct Way {
    std::memory_order publication = std::memory_order_seq_cst;
    std::memory_order state = std::memory_order_seq_cst;
    bool looks_after_state = true;
    bool ticket_first = true;
    bool unrung_after_ticket = true;  ///< whether the sleeping thread first reads the value of the futex, and only then
                                      ///< marks itself as not woken
};

struct Sleeping : ExploredSet {
    Sleeping() : ExploredSet(kTiny) {
        explorer::label(&weak_sequence, "weak_sequence");
        explorer::label(&weak_state, "weak_state");
        explorer::label(&weak_rings, "weak_rings");
        explorer::label(&weak_rung, "weak_rung");
    }
    base::Attention<ExploredAtomics> attentions[2];
    [[nodiscard]] auto attention_of() {
        return [this](std::uint32_t member) -> auto& { return attentions[member]; };
    }

    ExploredAtomics::Atomic<std::uint64_t> weak_sequence;
    ExploredAtomics::Atomic<std::uint32_t> weak_state;
    ExploredAtomics::Atomic<std::uint32_t> weak_rings;
    ExploredAtomics::Atomic<std::uint32_t> weak_rung;
};

/// Appends to the log with the steps that ProcessSet takes after the last arrival.
void append_and_ring(Sleeping& s, std::uint32_t rank) {
    Log<ExploredAtomics>(s.memory, rank).append({EntryKind::call, 0});
    ring_readers_of_log(2, rank, /*own_background=*/false, s.attention_of());
}

void wait_as_caller(Sleeping& s, base::Attention<ExploredAtomics>& attention, std::uint64_t entries) {
    for (std::uint64_t next = 0; next < entries; ++next) {
        while (!s.log.is_published(next)) {
            attention.sleep_as_caller_while([&] { return !s.log.is_published(next); }, std::chrono::seconds(1));
        }
    }
}

TEST_CASE("a caller who sleeps is woken by whoever publishes", "[unit]") {
    for (const Orders memory : {Orders::sequentially_consistent, Orders::store_buffers}) {
        check_passed(
            explore<Sleeping>([](Sleeping&) {},
                              {[](Sleeping& s) { append_and_ring(s, 0); }, [](Sleeping& s) { append_and_ring(s, 1); },
                               [](Sleeping& s) { wait_as_caller(s, s.attentions[0], 2); }},
                              [](Sleeping&) {}, {.memory = memory}));
    }
}

TEST_CASE("two ranks that sleep are both woken", "[unit]") {
    for (const Orders memory : {Orders::sequentially_consistent, Orders::store_buffers}) {
        check_passed(explore<Sleeping>(
            [](Sleeping&) {},
            {[](Sleeping& s) { append_and_ring(s, 0); }, [](Sleeping& s) { wait_as_caller(s, s.attentions[0], 1); },
             [](Sleeping& s) { wait_as_caller(s, s.attentions[1], 1); }},
            [](Sleeping&) {}, {.memory = memory}));
    }
}

Exploration sleep_weakly(const Way& way, Orders memory) {
    constexpr auto kBlocked = static_cast<std::uint32_t>(AttentionState::blocked);
    return explore<Sleeping>(
        [](Sleeping&) {},
        {[=](Sleeping& s) {
             s.weak_sequence.store(1, way.publication);
             if (s.weak_state.load(std::memory_order_seq_cst) == kBlocked) {
                 s.weak_rings.fetch_add(1, std::memory_order_seq_cst);
                 ExploredAtomics::futex_wake_all(s.weak_rings);
             }
         },
         [=](Sleeping& s) {
             while (s.weak_sequence.load(std::memory_order_seq_cst) != 1) {
                 std::uint32_t ticket = s.weak_rings.load(std::memory_order_seq_cst);
                 s.weak_state.store(kBlocked, way.state);
                 if (!way.looks_after_state || s.weak_sequence.load(std::memory_order_seq_cst) != 1) {
                     if (!way.ticket_first) {
                         ticket = s.weak_rings.load(std::memory_order_seq_cst);
                     }
                     ExploredAtomics::futex_wait(s.weak_rings, ticket);
                 }
                 s.weak_state.store(0, way.state);
             }
         }},
        [](Sleeping&) {}, {.memory = memory});
}

TEST_CASE("weaker ways to sleep are found as deadlocks", "[unit]") {
    const auto deadlocks = [](const Way& way, Orders memory) {
        const auto result = sleep_weakly(way, memory);
        return result.failure == Failure::deadlock;
    };
    CHECK_FALSE(deadlocks({}, Orders::store_buffers));
    CHECK(deadlocks({.publication = std::memory_order_release}, Orders::store_buffers));
    CHECK(deadlocks({.state = std::memory_order_release}, Orders::store_buffers));
    CHECK(deadlocks({.looks_after_state = false}, Orders::sequentially_consistent));
    CHECK(deadlocks({.ticket_first = false}, Orders::sequentially_consistent));
}

/// Two threads publish, and one thread sleeps until both have published. A publisher need not wake the sleeping thread
/// if this thread was already woken since its last check.
Exploration sleep_with_one_ring(const Way& way, Orders memory) {
    const auto publish = [=](Sleeping& s) {
        s.weak_sequence.fetch_add(1, std::memory_order_seq_cst);
        if (s.weak_rung.exchange(1, std::memory_order_seq_cst) == 0) {
            s.weak_rings.fetch_add(1, std::memory_order_seq_cst);
            ExploredAtomics::futex_wake_all(s.weak_rings);
        }
    };
    return explore<Sleeping>([](Sleeping&) {},
                             {publish, publish,
                              [=](Sleeping& s) {
                                  while (s.weak_sequence.load(std::memory_order_seq_cst) != 2) {
                                      if (!way.unrung_after_ticket) {
                                          s.weak_rung.store(0, way.state);
                                      }
                                      const std::uint32_t ticket = s.weak_rings.load(std::memory_order_seq_cst);
                                      if (way.unrung_after_ticket) {
                                          s.weak_rung.store(0, way.state);
                                      }
                                      if (s.weak_sequence.load(std::memory_order_seq_cst) != 2) {
                                          ExploredAtomics::futex_wait(s.weak_rings, ticket);
                                      }
                                  }
                              }},
                             [](Sleeping&) {}, {.memory = memory});
}

TEST_CASE("a bell that is rung once per look needs the right order of steps and the memory order seq_cst", "[unit]") {
    for (const Orders memory : {Orders::sequentially_consistent, Orders::store_buffers}) {
        check_passed(sleep_with_one_ring({}, memory));
    }
    const auto early = sleep_with_one_ring({.unrung_after_ticket = false}, Orders::sequentially_consistent);
    CHECK(early.failure == Failure::deadlock);
    const auto weak = sleep_with_one_ring({.state = std::memory_order_release}, Orders::store_buffers);
    CHECK(weak.failure == Failure::deadlock);
}

/// The background thread of a rank sleeps. Two other threads of this rank announce, and wake the background thread with
/// the steps of announced_more().
TEST_CASE("a background thread is woken however many ring, by one system call", "[unit]") {
    std::uint32_t most = 0;
    for (const Orders memory : {Orders::sequentially_consistent, Orders::store_buffers}) {
        std::vector<std::uint32_t> looks(1);
        // Both threads belong to rank 0. Each has its own Log, because this test has no enqueue lock that would let
        // them share one.
        const auto announce = [](Sleeping& s, std::uint32_t appender) {
            Log<ExploredAtomics>(s.memory, appender).append({EntryKind::call, 0});
            ring_readers_of_log(1, 0, /*own_background=*/true, s.attention_of());
        };
        check_passed(explore<Sleeping>([&](Sleeping&) { looks[0] = 0; },
                                       {[=](Sleeping& s) { announce(s, 0); }, [=](Sleeping& s) { announce(s, 1); },
                                        [&](Sleeping& s) {
                                            for (std::uint64_t next = 0; next < 2; ++next) {
                                                while (!s.log.is_published(next)) {
                                                    const std::uint32_t ticket = s.attentions[0].background_ticket();
                                                    ++looks[0];
                                                    s.attentions[0].set(AttentionState::asleep);
                                                    if (!s.log.is_published(next)) {
                                                        s.attentions[0].sleep_as_background(ticket,
                                                                                            std::chrono::seconds(1));
                                                    }
                                                }
                                            }
                                        }},
                                       [&](Sleeping& s) {
                                           RUEDA_EXPLORER_REQUIRE(s.attentions[0].background_rings() <= looks[0]);
                                           most = std::max(most, s.attentions[0].background_rings());
                                       },
                                       {.memory = memory}));
    }
    CHECK(most == 2);
}

/// A variable, and an event for its changes. A thread waits for the event until another thread of its process changes
/// the variable.
struct Event {
    base::BasicLocalEvent<ExploredAtomics> event;
    ExploredAtomics::Atomic<std::uint32_t> changed;
};

Exploration wait_for_event(std::memory_order change, Orders memory) {
    const auto waiter = [](Event& s) {
        const auto ready = [&s] { return s.changed.load(std::memory_order_seq_cst) != 0; };
        while (!ready()) {
            s.event.wait(ready, std::chrono::seconds(1));
        }
    };
    return explore<Event>([](Event&) {},
                          {waiter, waiter,
                           [=](Event& s) {
                               s.changed.store(1, change);
                               s.event.notify();
                           }},
                          [](Event&) {}, {.memory = memory});
}

TEST_CASE("threads that wait for an event of their process", "[unit]") {
    for (const Orders memory : {Orders::sequentially_consistent, Orders::store_buffers}) {
        check_passed(wait_for_event(std::memory_order_seq_cst, memory));
    }
    const auto late = wait_for_event(std::memory_order_release, Orders::store_buffers);
    CHECK_THAT(late.report, Contains("deadlock"));
}

}  // namespace
}  // namespace rueda::core::test
