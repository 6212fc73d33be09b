// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <set>

#include "tests/support/explorer/explorer.hpp"

namespace rueda::explorer {
namespace {

using Word = ExploredAtomics::Atomic<std::uint32_t>;

struct Words {
    std::array<Word, 4> words;
};

[[nodiscard]] std::uint64_t binomial(std::uint64_t n, std::uint64_t k) {
    std::uint64_t result = 1;
    for (std::uint64_t i = 1; i <= k; ++i) {
        result = result * (n - k + i) / i;
    }
    return result;
}

[[nodiscard]] std::function<void(Words&)> adder(std::size_t word, int times) {
    return [=](Words& state) {
        for (int i = 0; i < times; ++i) {
            state.words[word].fetch_add(1, std::memory_order_relaxed);
        }
    };
}

void label_words(Words& state) {
    for (std::size_t i = 0; i < state.words.size(); ++i) {
        label(&state.words[i], "word", static_cast<int>(i));
    }
}

TEST_CASE("without reduction, interleavings are counted by binomials", "[unit][explorer]") {
    const int k = GENERATE(1, 2, 3, 6);
    const bool same = GENERATE(true, false);
    CAPTURE(k, same);
    const auto total = static_cast<std::uint64_t>(k);
    const auto two =
        explore<Words>(label_words, {adder(0, k), adder(same ? 0 : 1, k)},
                       [=](Words& state) { RUEDA_EXPLORER_REQUIRE(state.words[0].load() == total * (same ? 2 : 1)); },
                       {.reduction = Reduction::none});
    INFO(two.report);
    CHECK(two.passed());
    CHECK(two.schedules == binomial(2 * total, total));
    CHECK(two.longest == 2 * total);
}

TEST_CASE("with reduction, only the order of conflicting operations counts", "[unit][explorer]") {
    const Reduction reduction = GENERATE(Reduction::sleep_sets, Reduction::dynamic);
    const int k = GENERATE(1, 2, 3, 6);
    const auto total = static_cast<std::uint64_t>(k);
    const auto check = [](Words&) {};
    CAPTURE(k, reduction);
    SECTION("all conflict: as many as without") {
        const auto result = explore<Words>(label_words, {adder(0, k), adder(0, k)}, check, {.reduction = reduction});
        CHECK(result.schedules == binomial(2 * total, total));
        CHECK(result.cut == 0);
    }
    SECTION("none conflicts: one") {
        const auto result =
            explore<Words>(label_words, {adder(0, k), adder(1, k), adder(2, k)}, check, {.reduction = reduction});
        CHECK(result.passed());
        CHECK(result.schedules == 1);
    }
    SECTION("readers do not conflict: one writer's places among the reads of each of two readers") {
        const auto reader = [=](Words& state) {
            for (int i = 0; i < k; ++i) {
                (void)state.words[0].load(std::memory_order_relaxed);
            }
        };
        const auto result = explore<Words>(label_words, {adder(0, 1), reader, reader}, check, {.reduction = reduction});
        CHECK(result.passed());
        CHECK(result.schedules == (total + 1) * (total + 1));
    }
}

TEST_CASE("a bound on preemptions leaves the schedules with so few switches", "[unit][explorer]") {
    // Two threads have k operations each. A schedule is a sequence of k zeros and k ones: the thread of each operation.
    // A preemption is a switch to the other thread while the first one has operations left. To check the explorer's
    // number, the test counts the sequences with c preemptions.
    constexpr int kOperations = 5;
    std::array<std::uint64_t, 2 * kOperations> with_preemptions{};
    for (std::uint32_t order = 0; order < (1U << (2 * kOperations)); ++order) {
        if (__builtin_popcount(order) != kOperations) {
            continue;
        }
        std::array<int, 2> left{kOperations, kOperations};
        std::size_t preemptions = 0;
        std::size_t last = 2;
        for (int i = 0; i < 2 * kOperations; ++i) {
            const std::size_t thread = (order >> i) & 1U;
            preemptions += last < 2 && last != thread && left[last] > 0 ? 1U : 0U;
            --left[thread];
            last = thread;
        }
        ++with_preemptions[preemptions];
    }
    std::uint64_t expected = 0;
    for (int bound = 0; bound < 5; ++bound) {
        expected += with_preemptions[static_cast<std::size_t>(bound)];
        const auto result = explore<Words>(label_words, {adder(0, kOperations), adder(0, kOperations)}, [](Words&) {},
                                           {.preemptions = bound});
        CAPTURE(bound);
        CHECK(result.passed());
        CHECK(result.schedules == expected);
    }
}

TEST_CASE("a limit on schedules ends the exploration and says that it is not complete", "[unit][explorer]") {
    const auto result = explore<Words>(label_words, {adder(0, 6), adder(0, 6)}, [](Words&) {}, {.schedules = 100});
    CHECK(result.failure == Failure::none);
    CHECK(result.schedules == 100);
    CHECK_FALSE(result.exhausted);
    CHECK_FALSE(result.passed());
}

TEST_CASE("three threads of twelve operations that meet in few words are exhausted", "[unit][explorer]") {
    // Each thread stores twice to its own word, adds one to a shared counter, and loads the other threads' words.
    const auto thread = [](std::size_t mine) {
        return [mine](Words& state) {
            for (std::uint32_t turn = 1; turn <= 2; ++turn) {
                state.words[mine].store(turn, std::memory_order_release);
                for (int look = 0; look < 4; ++look) {
                    (void)state.words[mine].load(std::memory_order_acquire);
                }
            }
            (void)state.words[(mine + 1) % 3].load(std::memory_order_acquire);
            state.words[3].fetch_add(1, std::memory_order_acq_rel);
        };
    };
    const auto result = explore<Words>(label_words, {thread(0), thread(1), thread(2)},
                                       [](Words& state) { RUEDA_EXPLORER_REQUIRE(state.words[3].load() == 3); });
    INFO(result.report);
    CHECK(result.passed());
    CHECK(result.longest == 36);
    // The three additions to the counter have 3! orders. A load of another thread's word has at most 3 results, because
    // that thread stores twice. The order of the additions may exclude some of them.
    CHECK(result.schedules > 6);
    CHECK(result.schedules <= 6 * 27);
}

}  // namespace
}  // namespace rueda::explorer
