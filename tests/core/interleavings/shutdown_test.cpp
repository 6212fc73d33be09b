// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <catch2/catch.hpp>

#include "tests/core/interleavings/explored_set.hpp"
#include "tests/support/explorer/check_passed.hpp"

/// One rank shuts down while other ranks announce. Every operation must end exactly once.
namespace rueda::core::test {
namespace {

enum : std::size_t { a, b };

struct Ending2 : RanksOf<2> {
    Ending2() : RanksOf({.members = 2, .unnamed_slots = 0, .initial_slots = 4, .slots = 4, .mailbox_records = 4}) {
        bind(a);
    }
    void require_ended() const {
        require_all_ended();
        const std::vector<Entry> all = entries();
        RUEDA_EXPLORER_REQUIRE(all.back().kind == EntryKind::closed);
        RUEDA_EXPLORER_REQUIRE(count(EntryKind::closed) == 1);
        RUEDA_EXPLORER_REQUIRE(ranks[0].closed && ranks[1].closed);
    }
    /// Returns how the last announcement of the name ended.
    [[nodiscard]] Ending ending_of(std::uint32_t rank, std::size_t name) const {
        const auto last = std::find_if(ranks[rank].events.rbegin(), ranks[rank].events.rend(),
                                       [=](const Rank::Event& event) { return event.name == name; });
        RUEDA_EXPLORER_REQUIRE(last != ranks[rank].events.rend());
        return last->ending;
    }
};

/// A name that has a slot is announced in this slot. A new name needs a full announcement, which contains the name.
TEST_CASE("a shutdown against an announcement: it fails in its slot, or is refused", "[unit]") {
    const std::size_t name = GENERATE(std::size_t{a}, std::size_t{b});
    std::array<bool, 4> seen{};
    check_passed(explore<Ending2>([](Ending2&) {},
                                  {[=](Ending2& s) {
                                       s.ranks[0].announce(name);
                                       s.ranks[0].shut_down();
                                       s.ranks[0].run_until_closed();
                                   },
                                   [](Ending2& s) {
                                       s.ranks[1].shut_down();
                                       s.ranks[1].run_until_closed();
                                   }},
                                  [&](Ending2& s) {
                                      s.require_ended();
                                      if (s.ranks[0].announced == 2) {
                                          const Ending ending = s.ending_of(0, name);
                                          RUEDA_EXPLORER_REQUIRE(ending != Ending::called);
                                          seen[static_cast<std::size_t>(ending)] = true;
                                      }
                                  }));
    CHECK(seen[static_cast<std::size_t>(Ending::failed)]);
    CHECK(seen[static_cast<std::size_t>(Ending::refused)]);
}

TEST_CASE("operations that are complete before the shutdown are called on all ranks, the others on no rank", "[unit]") {
    bool called = false;
    bool not_called = false;
    check_passed(explore<Ending2>([](Ending2&) {},
                                  {[](Ending2& s) {
                                       s.ranks[0].announce(a);
                                       s.ranks[0].announce(b);
                                       s.ranks[0].shut_down();
                                       s.ranks[0].run_until_closed();
                                   },
                                   [](Ending2& s) {
                                       s.ranks[1].announce(b);
                                       s.ranks[1].announce(a);
                                       s.ranks[1].shut_down();
                                       s.ranks[1].run_until_closed();
                                   }},
                                  [&](Ending2& s) {
                                      s.require_ended();
                                      for (const std::size_t name : {a, b}) {
                                          std::array<std::ptrdiff_t, 2> calls{};
                                          for (std::size_t rank = 0; rank < 2; ++rank) {
                                              const auto& events = s.ranks[rank].events;
                                              calls[rank] = std::count_if(
                                                  events.begin(), events.end(), [=](const Rank::Event& event) {
                                                      return event.name == name && event.ending == Ending::called;
                                                  });
                                          }
                                          RUEDA_EXPLORER_REQUIRE(calls[0] == calls[1]);
                                          (calls[0] == (name == a ? 2 : 1) ? called : not_called) = true;
                                      }
                                  },
                                  {.preemptions = 2}));
    CHECK(called);
    CHECK(not_called);
}

}  // namespace
}  // namespace rueda::core::test
