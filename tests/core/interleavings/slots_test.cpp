// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <catch2/catch.hpp>

#include "tests/core/interleavings/explored_set.hpp"
#include "tests/support/explorer/check_passed.hpp"

/// The registrar takes slots back while a rank announces, while metadata change, and while several ranks announce a new
/// name.
namespace rueda::core::test {
namespace {

enum : std::size_t { a, b, c, d };

/// The table has four slots for names (20 to 23) and cannot grow. One of them belongs to "a". When the next name needs
/// a slot, the registrar takes back idle slots.
struct Reclaiming : RanksOf<2> {
    Reclaiming()
        : RanksOf({.members = 2, .unnamed_slots = 20, .initial_slots = 24, .slots = 24, .mailbox_records = 4}) {
        bind(a);
    }
};
constexpr std::uint32_t kSlotOfA = 20;

TEST_CASE("an arrival during a reclaim is either counted or sent away, never both", "[unit]") {
    bool counted = false;
    bool sent_away = false;
    check_passed(explore<Reclaiming>(
        [](Reclaiming&) {},
        {[](Reclaiming& s) { s.ranks[0].announce(a); }, [](Reclaiming& s) { s.ranks[1].announce(c); }},
        [&](Reclaiming& s) {
            const std::uint64_t word = s.memory.arrivals(kSlotOfA).count.load();
            const auto state = static_cast<SlotState>(s.memory.record(kSlotOfA).state);
            RUEDA_EXPLORER_REQUIRE(ArrivalCount::is_retired(word) == (state == SlotState::retired));
            RUEDA_EXPLORER_REQUIRE(s.count(EntryKind::retire) == (ArrivalCount::is_retired(word) ? 1U : 0U));
            RUEDA_EXPLORER_REQUIRE(s.memory.header().requests.load() == 0);
            // An announcement in a slot is refused only if the slot was retired (taken back) before the announcement.
            // After such a refusal, the name gets a new slot number.
            RUEDA_EXPLORER_REQUIRE(s.ranks[0].sent_away == (ArrivalCount::is_retired(word) ? 1U : 0U));
            int waiting = 0;
            for (std::uint32_t slot = kSlotOfA + 1; slot < 24; ++slot) {
                const SlotRecord& record = s.memory.record(slot);
                const bool is_a = std::string_view(record.name, record.name_bytes) == kNames[a];
                waiting += is_a && record.state == static_cast<std::uint32_t>(SlotState::first_sight);
                RUEDA_EXPLORER_REQUIRE(!is_a || record.arrived == 1);
            }
            RUEDA_EXPLORER_REQUIRE(waiting == (ArrivalCount::is_retired(word) ? 1 : 0));
            (ArrivalCount::is_retired(word) ? sent_away : counted) = true;
        }));
    CHECK(counted);
    CHECK(sent_away);
}

Exploration reclaim_while_calling(bool same_order, const Steps& steps) {
    return explore<Reclaiming>([=](Reclaiming& s) { s.steps = steps; },
                               {[](Reclaiming& s) {
                                    s.ranks[0].announce(a);
                                    s.ranks[0].announce(c);
                                    s.ranks[0].run();
                                },
                                [=](Reclaiming& s) {
                                    s.ranks[1].announce(same_order ? a : c);
                                    s.ranks[1].announce(same_order ? c : a);
                                    s.ranks[1].run();
                                }},
                               [](Reclaiming& s) {
                                   s.require_all_ended();
                                   s.require_same_history();
                                   RUEDA_EXPLORER_REQUIRE(s.ranks[0].events.size() == 3);
                               },
                               {.preemptions = 2});
}

TEST_CASE("every name is called once, with or without a reclaim", "[unit]") {
    // Both ranks announce "a" first. The rank that arrives last must append the call. Possibly this call is not in the
    // log yet when the other rank takes slots back.
    for (const bool same_order : {false, true}) {
        check_passed(reclaim_while_calling(same_order, {}));
    }
}

TEST_CASE("a slot that is marked as called before its call is appended could be retired before it", "[unit]") {
    const auto result = reclaim_while_calling(/*same_order=*/true, {.called_before_append = true});
    CHECK(result.failure == Failure::check);
}

TEST_CASE("numbers are used again when the cursors have passed, and nobody arrives in the old one", "[unit]") {
    bool reused = false;
    check_passed(explore<Reclaiming>([](Reclaiming&) {},
                                     {[](Reclaiming& s) {
                                          s.ranks[0].turn();
                                          s.ranks[0].announce(a);
                                          s.ranks[0].announce(c);
                                          s.ranks[0].announce(d);
                                          s.ranks[0].run();
                                      },
                                      [](Reclaiming& s) {
                                          s.ranks[1].announce(c);
                                          s.ranks[1].turn();
                                          s.ranks[1].announce(d);
                                          s.ranks[1].announce(a);
                                          s.ranks[1].run();
                                      }},
                                     [&](Reclaiming& s) {
                                         s.require_all_ended();
                                         s.require_same_history();
                                         RUEDA_EXPLORER_REQUIRE(s.ranks[0].events.size() == 4);
                                         reused = reused || s.memory.label(kSlotOfA).state().use == 2;
                                     },
                                     {.preemptions = 2}));
    CHECK(reused);
}

/// The table has only two slots for names, 20 and 21. They belong to "a" and "b".
struct Full : RanksOf<2> {
    Full() : RanksOf({.members = 2, .unnamed_slots = 20, .initial_slots = 22, .slots = 22, .mailbox_records = 4}) {
        bind(a);
        bind(b);
    }
    [[nodiscard]] std::vector<Ending> endings_of(std::uint32_t rank, std::size_t name) const {
        std::vector<Ending> endings;
        for (const Rank::Event& event : ranks[rank].events) {
            if (event.name == name) {
                endings.push_back(event.ending);
            }
        }
        return endings;
    }
};

TEST_CASE("idle numbers that not all have read about are waited for, and no name is refused", "[unit]") {
    bool waited = false;
    check_passed(explore<Full>([](Full&) {},
                               {[](Full& s) {
                                    s.ranks[0].announce(c);
                                    s.ranks[0].announce(d);
                                    s.ranks[0].run();
                                },
                                [](Full& s) {
                                    s.ranks[1].announce(d);
                                    s.ranks[1].announce(c);
                                    s.ranks[1].run();
                                }},
                               [&](Full& s) {
                                   s.require_all_ended();
                                   s.require_same_history();
                                   RUEDA_EXPLORER_REQUIRE(s.count(EntryKind::exhausted) == 0);
                                   RUEDA_EXPLORER_REQUIRE(s.count(EntryKind::first_call) == 4);
                                   waited = waited || s.ranks[0].waited + s.ranks[1].waited > 0;
                               },
                               {.preemptions = 2}));
    CHECK(waited);
}

TEST_CASE("three names, two numbers: one is refused on all ranks, the others are called on all", "[unit]") {
    bool refused = false;
    check_passed(explore<Full>([](Full&) {},
                               {[](Full& s) {
                                    s.ranks[0].announce(a);
                                    s.ranks[0].announce(b);
                                    s.ranks[0].announce(c);
                                    s.ranks[0].run();
                                    s.ranks[0].announce(c);
                                    s.ranks[0].run();
                                },
                                [](Full& s) {
                                    s.ranks[1].announce(c);
                                    s.ranks[1].announce(b);
                                    s.ranks[1].announce(a);
                                    s.ranks[1].run();
                                    s.ranks[1].announce(c);
                                    s.ranks[1].run();
                                }},
                               [&](Full& s) {
                                   s.require_all_ended();
                                   for (const std::size_t name : {a, b, c}) {
                                       RUEDA_EXPLORER_REQUIRE(s.endings_of(0, name) == s.endings_of(1, name));
                                   }
                                   RUEDA_EXPLORER_REQUIRE(s.memory.header().refusals == 0);
                                   // Two of the three names have slots. Both slots are idle at the end.
                                   RUEDA_EXPLORER_REQUIRE(s.count(EntryKind::exhausted) <= 2);
                                   RUEDA_EXPLORER_REQUIRE(s.endings_of(0, c).back() == Ending::called);
                                   refused = refused || s.count(EntryKind::exhausted) == 2;
                               },
                               {.preemptions = 1}));
    CHECK(refused);
}

struct Changing : RanksOf<2> {
    Changing() : RanksOf({.members = 2, .unnamed_slots = 0, .initial_slots = 8, .slots = 8, .mailbox_records = 4}) {
        bind(a);
    }
};

TEST_CASE("metadata changes on one rank or on both: one resolve, one outcome, and then in full again", "[unit]") {
    for (const bool both : {false, true}) {
        check_passed(explore<Changing>([](Changing&) {},
                                       {[](Changing& s) {
                                            s.ranks[0].announce(a, vector_of(5));
                                            s.ranks[0].run();
                                            s.ranks[0].announce(a);
                                            s.ranks[0].run();
                                        },
                                        [=](Changing& s) {
                                            s.ranks[1].announce(a, vector_of(both ? 5 : 3));
                                            s.ranks[1].run();
                                            s.ranks[1].announce(a);
                                            s.ranks[1].run();
                                        }},
                                       [=](Changing& s) {
                                           s.require_all_ended();
                                           s.require_same_history();
                                           RUEDA_EXPLORER_REQUIRE(s.ranks[0].resolves + s.ranks[1].resolves == 1);
                                           const std::vector<Entry> entries = s.entries();
                                           RUEDA_EXPLORER_REQUIRE(entries.size() == 3);
                                           const EntryKind expected =
                                               both ? EntryKind::changed_call : EntryKind::mismatch;
                                           RUEDA_EXPLORER_REQUIRE(entries[1].kind == expected);
                                           RUEDA_EXPLORER_REQUIRE(entries[2].kind == EntryKind::first_call);
                                       }));
    }
}

/// The table has one slot, which is in use. So the table grows for the new names. The registrar may take back the slot
/// of "d".
template <std::uint32_t members>
struct FirstSight : RanksOf<members> {
    FirstSight()
        : RanksOf<members>(
              {.members = members, .unnamed_slots = 0, .initial_slots = 1, .slots = 4, .mailbox_records = 2}) {
        this->bind(d);
    }
    void require_both_called() const {
        this->require_all_ended();
        this->require_same_history();
        RUEDA_EXPLORER_REQUIRE(this->count(EntryKind::first_call) == 3);
        RUEDA_EXPLORER_REQUIRE(this->entries().size() == 3 + this->count(EntryKind::retire));
        RUEDA_EXPLORER_REQUIRE(this->tables.read() >= 1);
    }
};

template <std::uint32_t members>
auto announce_both(std::uint32_t rank, std::size_t first, std::size_t second) {
    return [=](FirstSight<members>& s) {
        s.ranks[rank].announce(first);
        s.ranks[rank].announce(second);
        s.ranks[rank].run();
    };
}

TEST_CASE("two ranks see two names first at once: the registrar's role is handed on, and no post is lost", "[unit]") {
    check_passed(explore<FirstSight<2>>([](FirstSight<2>&) {}, {announce_both<2>(0, a, b), announce_both<2>(1, b, a)},
                                        [](FirstSight<2>& s) { s.require_both_called(); }));
}

TEST_CASE("three ranks: the same", "[unit]") {
    check_passed(explore<FirstSight<3>>(
        [](FirstSight<3>&) {}, {announce_both<3>(0, a, b), announce_both<3>(1, b, a), announce_both<3>(2, a, b)},
        [](FirstSight<3>& s) { s.require_both_called(); }, {.preemptions = 1}));
}

}  // namespace
}  // namespace rueda::core::test
