// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/negotiation/joining.hpp"

#include <catch2/catch.hpp>

#include "tests/core/interleavings/explored_set.hpp"
#include "tests/support/explorer/check_passed.hpp"

/// A rank joins, or returns from a join, while another rank announces.
namespace rueda::core::test {
namespace {

struct Joining : ExploredSet {
    Joining() : ExploredSet({.members = 2, .unnamed_slots = 1, .slots = 2, .mailbox_records = 2}) {
        explorer::label(&memory.header().joined, "joined");
    }
    bool told = false;
    bool found = false;
};

TEST_CASE("either a rank that joins finds the announcement, or the announcing rank notifies it", "[unit]") {
    for (const Orders orders : {Orders::sequentially_consistent, Orders::store_buffers}) {
        std::array<bool, 3> seen{};
        check_passed(explore<Joining>([](Joining&) {},
                                      {[](Joining& s) {
                                           static_cast<void>(arrive(s.memory, 0, 1, false));
                                           s.told = joined_to_tell(s.memory) != 0;
                                       },
                                       [](Joining& s) {
                                           set_joined(s.memory, 1);
                                           s.found = has_new_arrivals(s.memory, 0, 0);
                                       }},
                                      [&](Joining& s) {
                                          RUEDA_EXPLORER_REQUIRE(s.told || s.found);
                                          seen[(s.told ? 1U : 0U) + (s.found ? 2U : 0U) - 1] = true;
                                      },
                                      {.memory = orders}));
        CHECK(seen == std::array{true, true, true});
    }
}

TEST_CASE("either a rank that joins finds a direct announcement, or the announcing rank notifies it", "[unit]") {
    for (const Orders orders : {Orders::sequentially_consistent, Orders::store_buffers}) {
        check_passed(explore<Joining>([](Joining&) {},
                                      {[](Joining& s) {
                                           s.memory.place(0, 0, 1).stamp.store(2, std::memory_order_seq_cst);
                                           s.told = joined_to_tell(s.memory) != 0;
                                       },
                                       [](Joining& s) {
                                           set_joined(s.memory, 1);
                                           s.found = has_stamped(s.memory, 0, 0, 1);
                                       }},
                                      [](Joining& s) { RUEDA_EXPLORER_REQUIRE(s.told || s.found); },
                                      {.memory = orders}));
    }
}

TEST_CASE("with weaker orders an announcement could be lost", "[unit]") {
    const auto result = explore<Joining>([](Joining&) {},
                                         {[](Joining& s) {
                                              s.memory.place(0, 0, 1).stamp.store(2, std::memory_order_release);
                                              s.told = joined_to_tell(s.memory) != 0;
                                          },
                                          [](Joining& s) {
                                              set_joined(s.memory, 1);
                                              s.found = has_stamped(s.memory, 0, 0, 1);
                                          }},
                                         [](Joining& s) { RUEDA_EXPLORER_REQUIRE(s.told || s.found); },
                                         {.memory = Orders::store_buffers});
    CHECK_FALSE(result.passed());
}

/// The registrar writes a new name's label only with the memory order `release`. Nevertheless, no rank may miss the
/// name.
TEST_CASE("either a rank that joins finds a new name, or the announcing rank notifies it", "[unit]") {
    for (const Orders orders : {Orders::sequentially_consistent, Orders::store_buffers}) {
        check_passed(explore<Joining>([](Joining&) {},
                                      {[](Joining& s) {
                                           s.memory.label(1).open("a");
                                           s.told = joined_to_tell_of_posts(s.memory) != 0;
                                       },
                                       [](Joining& s) {
                                           set_joined(s.memory, 1);
                                           s.found = s.memory.label(1).state().state == SlotState::first_sight;
                                       }},
                                      [](Joining& s) { RUEDA_EXPLORER_REQUIRE(s.told || s.found); },
                                      {.memory = orders}));
    }
}

struct Away : RanksOf<2> {
    Away() : RanksOf({.members = 2, .unnamed_slots = 0, .initial_slots = 4, .slots = 4, .mailbox_records = 4}) {
        explorer::label(&memory.header().joined, "joined");
        bind(0);
        somebody_joins = true;
    }
};

// If `directly` is true, rank 0 announces directly until it sees that rank 1 has joined.
TEST_CASE("a joined rank stands in once for each announcement, counted or direct, and the operation is called",
          "[unit]") {
    const bool directly = GENERATE(false, true);
    bool withdrawn = false;
    check_passed(explore<Away>([](Away&) {},
                               {[directly](Away& s) {
                                    for (int step = 0; step < 2; ++step) {
                                        if (directly && joined_to_tell(s.memory) == 0) {
                                            s.ranks[0].announce_directly(0);
                                        } else {
                                            s.ranks[0].announce(0);
                                        }
                                        s.ranks[0].run();
                                    }
                                },
                                [](Away& s) {
                                    s.ranks[1].join();
                                    s.ranks[1].run_until([&s] {
                                        s.ranks[1].stand_in(0);
                                        return s.ranks[1].events.size() == 3;  // the binding and two operations
                                    });
                                }},
                               [&withdrawn](Away& s) {
                                   s.require_all_ended();
                                   s.require_same_history();
                                   withdrawn = withdrawn || s.ranks[0].withdrawn > 0;
                                   RUEDA_EXPLORER_REQUIRE(s.ranks[0].events.size() == 3);
                                   RUEDA_EXPLORER_REQUIRE(s.count(EntryKind::call) == 2);
                                   RUEDA_EXPLORER_REQUIRE(s.ranks[0].resolves + s.ranks[1].resolves == 2);
                               },
                               {.preemptions = 3}));
    CHECK(withdrawn == directly);
}

struct Returning : RanksOf<2> {
    Returning() : RanksOf({.members = 2, .unnamed_slots = 1, .slots = 2, .mailbox_records = 2}) {
        explorer::label(&memory.header().joined, "joined");
        registrars.reserve(2);
        for (std::uint32_t rank = 0; rank < 2; ++rank) {
            set_joined(memory, rank);
            registrars.emplace_back(memory, rank, Registrar<ExploredAtomics>::Environment{});
        }
    }
    void settle(std::uint32_t rank) {
        registrars[rank].next_record()->kind = static_cast<std::uint32_t>(RequestKind::settle);
        RUEDA_EXPLORER_REQUIRE(registrars[rank].post().is_ok());
    }
    std::vector<Registrar<ExploredAtomics>> registrars;
    bool late = false;  // true if rank 1 saw the announcement that rank 0 makes after the join
};

TEST_CASE("no rank stands in for a rank that has come back and announces", "[unit]") {
    for (const Orders orders : {Orders::sequentially_consistent, Orders::store_buffers}) {
        bool late = false;
        check_passed(explore<Returning>([](Returning&) {},
                                        {[](Returning& s) {
                                             s.settle(0);
                                             while (!s.log.is_published(0)) {
                                                 ExploredAtomics::pause();
                                             }
                                             RUEDA_EXPLORER_REQUIRE(s.log.read(0).kind == EntryKind::all_joined);
                                             static_cast<void>(arrive(s.memory, 0, 1, false));
                                         },
                                         [](Returning& s) {
                                             s.settle(1);
                                             for (int look = 0; look < 2; ++look) {  // rank 1 has not read the log yet
                                                 const bool found = has_new_arrivals(s.memory, 0, 0);
                                                 RUEDA_EXPLORER_REQUIRE(!found || !is_away(s.memory, 1));
                                                 s.late = s.late || found;
                                             }
                                         }},
                                        [&](Returning& s) {
                                            RUEDA_EXPLORER_REQUIRE(s.count(EntryKind::all_joined) == 1);
                                            late = late || s.late;
                                        },
                                        {.memory = orders}));
        CHECK(late);
    }
}

}  // namespace
}  // namespace rueda::core::test
