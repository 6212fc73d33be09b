// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <catch2/catch.hpp>

#include "core/process_set/common/waking.hpp"
#include "tests/core/runtime/two_members.hpp"

namespace rueda::tests {
namespace {

using base::AttentionState;
using core::Urgency;
using core::Waking;

/// Counts how often a member's caller and background thread were woken. Each call of since() returns the counts since
/// the previous call. It also puts the member to sleep again in the given state, because only a sleeping member is
/// woken.
struct Rings {
    explicit Rings(const TwoMembers& set, std::uint32_t member)
        : attention(set.arena(0).blocks().of(member).attention) {}
    struct Count {
        std::uint32_t caller;
        std::uint32_t background;
        bool operator==(const Count&) const = default;
    };
    Count since(AttentionState state) {
        const Count now{attention.caller_ticket(), attention.background_ticket()};
        const Count rung{now.caller - last.caller, now.background - last.background};
        last = now;
        attention.set(state);
        return rung;
    }
    base::Attention<base::StdAtomics>& attention;
    Count last{0, 0};
};

constexpr Rings::Count kNone{0, 0};
constexpr Rings::Count kCaller{1, 0};
constexpr Rings::Count kBackground{0, 1};

TEST_CASE("an awake member is not woken, and a sleeping one is woken according to its kind of sleep", "[threads]") {
    const TwoMembers set;
    const Waking waking(set.view(0));
    Rings own(set, 0);
    Rings other(set, 1);
    for (const auto& [state, expected] : {std::pair{AttentionState::awake, kNone},
                                          {AttentionState::blocked, kCaller},
                                          {AttentionState::asleep, kBackground},
                                          {AttentionState::holding_back, kBackground}}) {
        INFO(static_cast<int>(state));
        static_cast<void>(own.since(state));
        static_cast<void>(other.since(state));
        waking.wake_others();
        CHECK(own.since(state) == kNone);
        CHECK(other.since(state) == expected);
        waking.wake(0);
        CHECK(own.since(state) == expected);
    }
}

TEST_CASE("an announcement wakes blocked callers, and this rank's background thread if no other thread looks",
          "[threads]") {
    const TwoMembers set;
    const Waking waking(set.view(0));
    Rings own(set, 0);
    Rings other(set, 1);
    for (const Urgency urgency : {Urgency::background, Urgency::blocking, Urgency::driving, Urgency::leaving}) {
        INFO(static_cast<int>(urgency));
        static_cast<void>(own.since(AttentionState::asleep));
        static_cast<void>(other.since(AttentionState::asleep));
        waking.announced_more(urgency);
        CHECK(own.since(AttentionState::blocked) == (urgency == Urgency::background ? kBackground : kNone));
        // The member that starts the batch will wake the other member.
        CHECK(other.since(AttentionState::blocked) == kNone);
        waking.announced_more(urgency);
        CHECK(own.since(AttentionState::asleep) == kCaller);
        CHECK(other.since(AttentionState::asleep) == kCaller);
    }
}

TEST_CASE("members behind a position are woken, and each reader once", "[threads]") {
    const TwoMembers set;
    Waking waking(set.view(0));
    Rings own(set, 0);
    Rings other(set, 1);
    static_cast<void>(own.since(AttentionState::asleep));
    static_cast<void>(other.since(AttentionState::asleep));
    set.memory().cursor(1).position.store(5);
    waking.ring_behind(5);
    CHECK(other.since(AttentionState::asleep) == kNone);
    waking.ring_behind(6);
    CHECK(other.since(AttentionState::asleep) == kBackground);
    waking.ring_readers(6);
    CHECK(other.since(AttentionState::asleep) == kBackground);
    waking.ring_readers(6);
    CHECK(other.since(AttentionState::asleep) == kNone);
    waking.ring_readers(7);
    CHECK(other.since(AttentionState::asleep) == kBackground);
    CHECK(own.since(AttentionState::asleep) == kNone);
}

TEST_CASE("at the end all members are woken, whether they are awake or were woken before", "[threads]") {
    const TwoMembers set;
    const Waking waking(set.view(0));
    Rings own(set, 0);
    Rings other(set, 1);
    static_cast<void>(own.since(AttentionState::awake));
    static_cast<void>(other.since(AttentionState::blocked));
    waking.wake(1);
    waking.ring_all();
    CHECK(own.since(AttentionState::awake) == Rings::Count{1, 1});
    CHECK(other.since(AttentionState::awake) == Rings::Count{2, 1});
}

}  // namespace
}  // namespace rueda::tests
