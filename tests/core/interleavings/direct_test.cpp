// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <catch2/catch.hpp>

#include "base/shared_memory/attention.hpp"
#include "core/negotiation/ringing.hpp"
#include "tests/core/interleavings/explored_set.hpp"
#include "tests/support/explorer/check_passed.hpp"

/// Tests of direct announcements: no counter counts them, so the members look at the announcements themselves. In every
/// interleaving, either all members complete the operation by direct announcements, or no member does.
namespace rueda::core::test {
namespace {

enum : std::size_t { a, b, c, d };

template <std::uint32_t members>
struct Bound : RanksOf<members> {
    Bound()
        : RanksOf<members>(
              {.members = members, .unnamed_slots = 0, .initial_slots = 4, .slots = 4, .mailbox_records = 4}) {
        this->bind(a);
    }
};

/// Returns a thread body: it runs `body` for one rank; then the rank completes its operations, shuts down, and reads
/// the log to its end.
template <class Set, class Body>
auto then_leave(std::uint32_t rank, Body&& body) {
    return [=](Set& s) {
        body(s.ranks[rank]);
        s.ranks[rank].run();
        s.ranks[rank].shut_down();
        s.ranks[rank].run_until_closed();
    };
}

template <class Set>
void require_all_called(const Set& s) {
    s.require_all_ended();
    for (const Rank& rank : s.ranks) {
        for (const Rank::Event& event : rank.events) {
            RUEDA_EXPLORER_REQUIRE(event.ending == Ending::called);
        }
    }
}

TEST_CASE("all announce directly: no call, and the inputs of the same operation", "[unit]") {
    const auto twice = [](Rank& rank) {
        rank.announce_directly(a);
        rank.run();
        rank.announce_directly(a);
    };
    for (const Orders memory : {Orders::sequentially_consistent, Orders::store_buffers}) {
        check_passed(explore<Bound<2>>([](Bound<2>&) {},
                                       {[=](Bound<2>& s) {
                                            twice(s.ranks[0]);
                                            s.ranks[0].run();
                                        },
                                        [=](Bound<2>& s) {
                                            twice(s.ranks[1]);
                                            s.ranks[1].run();
                                        }},
                                       [](Bound<2>& s) {
                                           require_all_called(s);
                                           RUEDA_EXPLORER_REQUIRE(s.ranks[0].direct == 2 && s.ranks[1].direct == 2);
                                           RUEDA_EXPLORER_REQUIRE(s.entries().size() ==
                                                                  1);  // of the name's first operation
                                       },
                                       {.memory = memory}));
    }
}

/// A slot has memory for two announcements of each member. Two members swap this memory after every second
/// announcement. So a member's third announcement overwrites the other member's first announcement, and its fifth
/// announcement overwrites its own first one.
TEST_CASE("all ranks announce directly while they use each other's places", "[unit]") {
    constexpr std::uint32_t kOperations = 6;
    const auto often = [](std::uint32_t rank) {
        return [=](Bound<2>& s) {
            for (std::uint32_t operation = 0; operation < kOperations; ++operation) {
                s.ranks[rank].announce_directly(a);
                s.ranks[rank].run();
            }
        };
    };
    for (const Orders memory : {Orders::sequentially_consistent, Orders::store_buffers}) {
        check_passed(explore<Bound<2>>([](Bound<2>&) {}, {often(0), often(1)},
                                       [](Bound<2>& s) {
                                           require_all_called(s);
                                           for (const Rank& rank : s.ranks) {
                                               RUEDA_EXPLORER_REQUIRE(rank.direct == kOperations);
                                           }
                                       },
                                       {.memory = memory}));
    }
}

TEST_CASE("directly, counted and with changed metadata in turns, while places change hands", "[unit]") {
    bool changed_hands = false;
    const auto turns = [](std::uint32_t rank) {
        return [=](Bound<2>& s) {
            Rank& own = s.ranks[rank];
            for (std::uint32_t operation = 0; operation < 5; ++operation) {
                if ((operation + rank) % 3 == 1) {
                    own.announce(a);
                } else {
                    own.announce_directly(a);
                }
                own.run();
            }
            own.announce(a, vector_of(4));  // both ranks announce changed metadata, so the name loses its slot
            own.run();
            own.announce(a, vector_of(4));
            own.run();
        };
    };
    check_passed(explore<Bound<2>>([](Bound<2>&) {}, {turns(0), turns(1)},
                                   [&](Bound<2>& s) {
                                       require_all_called(s);
                                       for (const Rank& rank : s.ranks) {
                                           RUEDA_EXPLORER_REQUIRE(rank.events.size() == 8);
                                           changed_hands = changed_hands || rank.direct > 0;
                                       }
                                       RUEDA_EXPLORER_REQUIRE(s.count(EntryKind::changed_call) == 1);
                                   },
                                   {.preemptions = 2}));
    CHECK(changed_hands);
}

TEST_CASE("one announces directly, the other counts: one call, on both", "[unit]") {
    check_passed(explore<Bound<2>>([](Bound<2>&) {},
                                   {[](Bound<2>& s) {
                                        s.ranks[0].announce_directly(a);
                                        s.ranks[0].run();
                                        s.ranks[0].announce_directly(a);
                                        s.ranks[0].run();
                                    },
                                    [](Bound<2>& s) {
                                        s.ranks[1].announce(a);
                                        s.ranks[1].run();
                                        s.ranks[1].announce_directly(a);
                                        s.ranks[1].run();
                                    }},
                                   [](Bound<2>& s) {
                                       require_all_called(s);
                                       s.require_same_history();
                                       RUEDA_EXPLORER_REQUIRE(s.count(EntryKind::call) == 1);
                                       RUEDA_EXPLORER_REQUIRE(s.ranks[0].withdrawn == 1);
                                       RUEDA_EXPLORER_REQUIRE(s.ranks[0].direct == 1 && s.ranks[1].direct == 1);
                                   }));
}

TEST_CASE("one announces directly, the other with changed metadata: a mismatch, on both", "[unit]") {
    check_passed(explore<Bound<2>>([](Bound<2>&) {},
                                   {[](Bound<2>& s) {
                                        s.ranks[0].announce_directly(a);
                                        s.ranks[0].run();
                                    },
                                    [](Bound<2>& s) {
                                        s.ranks[1].announce(a, vector_of(4));
                                        s.ranks[1].run();
                                    }},
                                   [](Bound<2>& s) {
                                       s.require_all_ended();
                                       s.require_same_history();
                                       RUEDA_EXPLORER_REQUIRE(s.ranks[0].events.back().ending == Ending::mismatch);
                                   }));
}

TEST_CASE("if one of three ranks is counted, all three are", "[unit]") {
    const auto directly = [](std::uint32_t rank) {
        return [=](Bound<3>& s) {
            s.ranks[rank].announce_directly(a);
            s.ranks[rank].run();
        };
    };
    check_passed(explore<Bound<3>>([](Bound<3>&) {},
                                   {directly(0), directly(1),
                                    [](Bound<3>& s) {
                                        s.ranks[2].announce(a);
                                        s.ranks[2].run();
                                    }},
                                   [](Bound<3>& s) {
                                       require_all_called(s);
                                       s.require_same_history();
                                       RUEDA_EXPLORER_REQUIRE(s.count(EntryKind::call) == 1);
                                   },
                                   {.preemptions = 2}));
}

/// The table has four slots for names (20 to 23) and cannot grow. One of them belongs to "a". When the next name needs
/// a slot, the registrar takes back idle slots. The slot of "a" looks idle, because its arrival counter does not count
/// direct announcements.
template <std::uint32_t members>
struct Reclaiming : RanksOf<members> {
    Reclaiming()
        : RanksOf<members>(
              {.members = members, .unnamed_slots = 20, .initial_slots = 24, .slots = 24, .mailbox_records = 4}) {
        this->bind(a);
    }
};

TEST_CASE("a slot is taken back under a direct announcement: completed by all, or announced in full by all", "[unit]") {
    bool completed = false;
    bool withdrawn = false;
    check_passed(explore<Reclaiming<2>>([](Reclaiming<2>&) {},
                                        {then_leave<Reclaiming<2>>(0,
                                                                   [](Rank& rank) {
                                                                       rank.announce_directly(a);
                                                                       rank.announce(c);
                                                                   }),
                                         then_leave<Reclaiming<2>>(1,
                                                                   [](Rank& rank) {
                                                                       rank.announce(c);
                                                                       rank.turn();
                                                                       rank.announce_directly(a);
                                                                   })},
                                        [&](Reclaiming<2>& s) {
                                            require_all_called(s);
                                            RUEDA_EXPLORER_REQUIRE(s.ranks[0].direct == s.ranks[1].direct);
                                            RUEDA_EXPLORER_REQUIRE(s.ranks[0].events.size() == 3);
                                            (s.ranks[0].direct > 0 ? completed : withdrawn) = true;
                                        },
                                        {.preemptions = 2}));
    CHECK(completed);
    CHECK(withdrawn);
}

TEST_CASE("one of three ranks reads the retirement before it announces", "[unit][long]") {
    bool completed = false;
    bool withdrawn = false;
    const auto first_directly = [](Rank& rank) {
        rank.announce_directly(a);
        rank.announce(c);
    };
    check_passed(explore<Reclaiming<3>>(
        [](Reclaiming<3>&) {},
        {then_leave<Reclaiming<3>>(0, first_directly), then_leave<Reclaiming<3>>(1, first_directly),
         then_leave<Reclaiming<3>>(2,
                                   [](Rank& rank) {
                                       rank.announce(c);
                                       rank.turn();
                                       rank.announce_directly(a);
                                   })},
        [&](Reclaiming<3>& s) {
            require_all_called(s);
            for (const Rank& rank : s.ranks) {
                RUEDA_EXPLORER_REQUIRE(rank.direct == s.ranks[0].direct);
                RUEDA_EXPLORER_REQUIRE(rank.events.size() == 3);
            }
            (s.ranks[0].direct > 0 ? completed : withdrawn) = true;
        },
        {.preemptions = 1}));
    CHECK(completed);
    CHECK(withdrawn);
}

TEST_CASE("if a rank shuts down during a direct announcement, the operation is called on both ranks or on none",
          "[unit]") {
    bool called = false;
    bool failed = false;
    // Rank 1 leaves before it announces, or while another of its threads has a direct announcement pending.
    for (const bool both : {false, true}) {
        check_passed(explore<Bound<2>>([](Bound<2>&) {},
                                       {[](Bound<2>& s) {
                                            s.ranks[0].announce_directly(a);
                                            s.ranks[0].run();
                                            s.ranks[0].shut_down();
                                            s.ranks[0].run_until_closed();
                                        },
                                        [=](Bound<2>& s) {
                                            if (both) {
                                                s.ranks[1].announce_directly(a);
                                            }
                                            s.ranks[1].shut_down();
                                            s.ranks[1].run_until_closed();
                                        }},
                                       [&](Bound<2>& s) {
                                           s.require_all_ended();
                                           RUEDA_EXPLORER_REQUIRE(s.ranks[0].direct == s.ranks[1].direct);
                                           (s.ranks[0].direct > 0 ? called : failed) = true;
                                       }));
    }
    CHECK(called);
    CHECK(failed);
}

struct Leaving : Bound<3> {
    ExploredAtomics::Atomic<std::uint32_t> ended{0};
};

TEST_CASE("a shutdown ends a direct announcement without waiting for the shutdown of who cannot announce any more",
          "[unit][long]") {
    check_passed(explore<Leaving>([](Leaving&) {},
                                  {[](Leaving& s) {
                                       s.ranks[0].announce_directly(a);
                                       s.ranks[0].run();
                                       s.ended.store(1, std::memory_order_release);
                                       s.ranks[0].shut_down();
                                       s.ranks[0].run_until_closed();
                                   },
                                   [](Leaving& s) {
                                       s.ranks[1].announce_directly(a);  // pending on another thread
                                       s.ranks[1].shut_down();
                                       s.ranks[1].run_until_closed();
                                   },
                                   [](Leaving& s) {
                                       s.ranks[2].run_until(
                                           [&] { return s.ended.load(std::memory_order_acquire) == 1; });
                                       s.ranks[2].shut_down();
                                       s.ranks[2].run_until_closed();
                                   }},
                                  [](Leaving& s) {
                                      s.require_all_ended();
                                      RUEDA_EXPLORER_REQUIRE(s.ranks[0].direct == 0 && s.ranks[1].direct == 0);
                                  },
                                  {.preemptions = 2}));
}

struct Sleeping : ExploredSet {
    Sleeping() : ExploredSet({.members = 2, .unnamed_slots = 0, .slots = 1, .mailbox_records = 1}) {}
    base::Attention<ExploredAtomics> attentions[2];
    [[nodiscard]] auto attention_of() {
        return [this](std::uint32_t member) -> auto& { return attentions[member]; };
    }

    static constexpr std::uint64_t kGeneration = 1;
    void announce(std::uint32_t rank, std::uint32_t flags) const {
        Place<ExploredAtomics>& place = memory.place(0, rank, kGeneration);
        place.flags = flags;
        place.stamp.store(kGeneration + 1, std::memory_order_seq_cst);
    }
    /// Rank 0 announces directly. Then it sleeps, as a caller does, until it knows how the operation continues.
    void announce_and_wait(std::uint64_t last_position = kNoLastPosition) {
        announce(0, Place<ExploredAtomics>::kDirect);
        const auto waiting = [&] {
            return look_at_direct(memory, 0, 0, kGeneration, last_position) == DirectState::waiting;
        };
        while (waiting()) {
            attentions[0].sleep_as_caller_while(waiting, std::chrono::seconds(1));
        }
    }
};

/// Runs the steps of DirectAnnouncements::announce() and Announcer::announce() while a caller sleeps.
TEST_CASE("a rank that sleeps after its direct announcement is woken by every rank that announces", "[unit]") {
    constexpr std::uint32_t kDirect = Place<ExploredAtomics>::kDirect;
    for (const Orders memory : {Orders::sequentially_consistent, Orders::store_buffers}) {
        for (const std::uint32_t flags : {kDirect, 0U}) {
            check_passed(explore<Sleeping>(
                [](Sleeping&) {},
                {[=](Sleeping& s) {
                     s.announce(1, flags);
                     if (flags == kDirect) {
                         ring_readers_of_log(2, 1, /*own_background=*/false, s.attention_of());
                     } else {
                         ring_direct_waiters(s.memory, 1, 0, Sleeping::kGeneration, s.attention_of());
                     }
                 },
                 [](Sleeping& s) { s.announce_and_wait(); }},
                [=](Sleeping& s) {
                    RUEDA_EXPLORER_REQUIRE(look_at_direct(s.memory, 0, 0, Sleeping::kGeneration) ==
                                           (flags == kDirect ? DirectState::complete : DirectState::withdrawn));
                },
                {.memory = memory}));
        }
    }
}

/// Runs the steps of LogAnswers::pass_and_tell() for the log entry 0 while a caller sleeps.
Exploration end_announcements_beside_a_sleeper(const Steps& steps, Orders memory) {
    return explore<Sleeping>(
        [=](Sleeping& s) { s.steps = steps; },
        {[](Sleeping& s) {
             end_announcements(s.memory, 1, 1, s.steps);
             ring_readers_of_log(2, 1, /*own_background=*/true, s.attention_of());
         },
         [](Sleeping& s) { s.announce_and_wait(/*last_position=*/0); }},
        [](Sleeping& s) {
            RUEDA_EXPLORER_REQUIRE(look_at_direct(s.memory, 0, 0, Sleeping::kGeneration, 0) == DirectState::withdrawn);
        },
        {.memory = memory});
}

TEST_CASE("a rank that sleeps after its direct announcement is woken by a member that will not announce any more",
          "[unit]") {
    for (const Orders memory : {Orders::sequentially_consistent, Orders::store_buffers}) {
        check_passed(end_announcements_beside_a_sleeper({}, memory));
    }
    const auto weak =
        end_announcements_beside_a_sleeper({.end_of_announcements = std::memory_order_release}, Orders::store_buffers);
    CHECK(weak.failure == Failure::deadlock);
}

}  // namespace
}  // namespace rueda::core::test
