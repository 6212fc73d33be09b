// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <stdexcept>

#include "tests/support/explorer/explorer.hpp"

namespace rueda::explorer {
namespace {

using Catch::Matchers::Contains;
using Word = ExploredAtomics::Atomic<std::uint32_t>;

struct Pair {
    Word first;
    Word second;
    void name() {
        label(&first, "first");
        label(&second, "second");
    }
};
const auto name_both = [](Pair& state) { state.name(); };
const auto accept_all = [](Pair&) {};

void take(Word& lock) {
    while (lock.exchange(1, std::memory_order_acquire) != 0) {
        ExploredAtomics::pause();
    }
}

TEST_CASE("a lost update is found and its schedule shown", "[unit][explorer]") {
    const auto add = [](Pair& state) {
        const std::uint32_t seen = state.first.load(std::memory_order_relaxed);
        state.first.store(seen + 1, std::memory_order_relaxed);
    };
    const auto result =
        explore<Pair>(name_both, {add, add}, [](Pair& state) { RUEDA_EXPLORER_REQUIRE(state.first.load() == 2); });
    CHECK(result.failure == Failure::check);
    CHECK_FALSE(result.exhausted);
    CHECK_THAT(result.report, Contains("state.first.load() == 2 does not hold"));
    CHECK_THAT(result.report, Contains("thread 1  load relaxed              first                0"));
    CHECK_THAT(result.report, Contains("thread 0  store relaxed             first"));
    CHECK_THAT(result.report, Contains("1 -> 1"));
}

TEST_CASE("locks taken crosswise are a deadlock", "[unit][explorer]") {
    const Memory memory = GENERATE(Memory::sequentially_consistent, Memory::store_buffers);
    const auto body = [](Word Pair::*one, Word Pair::*other) {
        return [=](Pair& state) {
            take(state.*one);
            take(state.*other);
            (state.*other).store(0, std::memory_order_release);
            (state.*one).store(0, std::memory_order_release);
        };
    };
    const auto wrong = explore<Pair>(name_both, {body(&Pair::first, &Pair::second), body(&Pair::second, &Pair::first)},
                                     accept_all, {.memory = memory});
    CHECK(wrong.failure == Failure::deadlock);
    CHECK_THAT(wrong.report, Contains("thread 0 spins on") && Contains("thread 1 spins on"));
    const auto right = explore<Pair>(name_both, {body(&Pair::first, &Pair::second), body(&Pair::first, &Pair::second)},
                                     accept_all, {.memory = memory});
    INFO(right.report);
    CHECK(right.passed());
    CHECK(right.schedules >= 2);
}

TEST_CASE("a spin loop ends when the change came between its look and its pause", "[unit][explorer]") {
    const auto wait = [](Pair& state) {
        while (state.first.load(std::memory_order_acquire) == 0) {
            ExploredAtomics::pause();
        }
        state.second.store(1);
    };
    const auto signal = [](Pair& state) { state.first.store(1, std::memory_order_release); };
    const auto result =
        explore<Pair>(name_both, {wait, signal}, [](Pair& state) { RUEDA_EXPLORER_REQUIRE(state.second.load() == 1); });
    INFO(result.report);
    CHECK(result.passed());
    CHECK(result.schedules == 2);  // the load can come before or after the change, so there are two schedules
}

TEST_CASE("a spin loop nobody ends is a deadlock, one without pause() is too long", "[unit][explorer]") {
    const bool pauses = GENERATE(true, false);
    const auto wait = [pauses](Pair& state) {
        while (state.first.load() == 0) {
            if (pauses) {
                ExploredAtomics::pause();
            }
        }
    };
    const auto other = [](Pair& state) { state.second.store(1); };
    const auto result = explore<Pair>(name_both, {wait, other}, accept_all, {.steps = 500});
    CHECK(result.failure == (pauses ? Failure::deadlock : Failure::too_long));
    CHECK_THAT(result.report, Contains(pauses ? "thread 0 spins on first" : "more than 500 steps"));
}

TEST_CASE("loops that count their turns go on without a change where pause() does not wait", "[unit][explorer]") {
    const auto look = [](Pair& state) {
        for (int turn = 0; turn < 3 && state.first.load() == 0; ++turn) {
            ExploredAtomics::pause();
        }
        state.second.store(1);
    };
    CHECK(explore<Pair>(name_both, {look}, accept_all).failure == Failure::deadlock);
    CHECK(explore<Pair>(name_both, {look}, accept_all, {.pause_waits = false}).passed());
}

TEST_CASE("an exception or a failed check of a thread is the failure, also below noexcept", "[unit][explorer]") {
    const auto thrown = explore<Pair>(name_both, {[](Pair&) { throw std::runtime_error("no arena"); }}, accept_all);
    CHECK(thrown.failure == Failure::exception);
    CHECK_THAT(thrown.report, Contains("thread 0 threw: no arena"));
    const auto refused = explore<Pair>(
        name_both, {[](Pair&) {}, [](Pair& state) noexcept { RUEDA_EXPLORER_REQUIRE(state.first.load() == 7); }},
        accept_all);
    CHECK(refused.failure == Failure::check);
    CHECK_THAT(refused.report, Contains("state.first.load() == 7 does not hold"));
    const auto in_setup = explore<Pair>([](Pair&) { explorer_fail("bad setup"); }, {[](Pair&) {}}, accept_all);
    CHECK(in_setup.failure == Failure::check);
    CHECK_THAT(in_setup.report, Contains("bad setup"));
    CHECK_THROWS_AS(explore<Pair>(name_both, {}, accept_all), std::invalid_argument);
}

TEST_CASE("threads that are not repeatable are found out", "[unit][explorer]") {
    int runs = 0;
    const auto moody = [&runs](Pair& state) {
        state.first.fetch_add(1);
        if (++runs > 1) {
            return;
        }
        state.first.fetch_add(1);
    };
    const auto steady = [](Pair& state) { state.first.fetch_add(1); };
    const auto result = explore<Pair>(name_both, {moody, steady}, accept_all);
    CHECK(result.failure == Failure::not_repeatable);
}

TEST_CASE("explored atomics work where no exploration runs", "[unit][explorer]") {
    ExploredAtomics::Atomic<std::int32_t> number(-3);
    static_assert(sizeof(number) == sizeof(std::int32_t) && alignof(decltype(number)) == alignof(std::int32_t));
    static_assert(std::is_trivially_destructible_v<decltype(number)>);
    CHECK(number.fetch_add(5, std::memory_order_relaxed) == -3);
    CHECK(number.load() == 2);
    CHECK(number.exchange(6) == 2);
    CHECK(number.fetch_and(-5) == 6);
    CHECK(number.fetch_or(1) == 2);
    CHECK(number.fetch_sub(10) == 3);
    CHECK(number.fetch_xor(1) == -7);
    std::int32_t expected = 0;
    CHECK_FALSE(number.compare_exchange_strong(expected, 9, std::memory_order_acq_rel, std::memory_order_acquire));
    CHECK(expected == -8);
    CHECK(number.compare_exchange_weak(expected, 9));
    CHECK(number.load() == 9);
    number.store(4, std::memory_order_release);
    CHECK(number.load(std::memory_order_acquire) == 4);
}

}  // namespace
}  // namespace rueda::explorer
