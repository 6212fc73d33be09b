// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <catch2/catch.hpp>
#include <cstdint>
#include <set>
#include <tuple>

#include "tests/support/explorer/explorer.hpp"

namespace rueda::explorer {
namespace {

using Catch::Matchers::Contains;
using Word = ExploredAtomics::Atomic<std::uint32_t>;

// The litmus tests of x86 by P. Sewell et al., x86-TSO: A Rigorous and Usable Programmer's Model (2010).
struct Litmus {
    Word x;
    Word y;
    std::uint32_t a = 9;
    std::uint32_t b = 9;
    std::uint32_t c = 9;
    std::uint32_t d = 9;
};
using Outcomes = std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>>;

[[nodiscard]] Outcomes outcomes_of(const std::vector<std::function<void(Litmus&)>>& bodies, const Options& options) {
    Outcomes seen;
    const auto result = explore<Litmus>(
        [](Litmus&) {}, bodies, [&](Litmus& state) { seen.emplace(state.a, state.b, state.c, state.d); }, options);
    INFO(result.report);
    CHECK(result.passed());
    return seen;
}

const auto every_reduction = [] { return GENERATE(Reduction::none, Reduction::sleep_sets, Reduction::dynamic); };

TEST_CASE("store buffering: both may miss the other's store on x86, not under SC", "[unit][explorer]") {
    const Reduction reduction = every_reduction();
    const auto order = GENERATE(std::memory_order_relaxed, std::memory_order_release, std::memory_order_seq_cst);
    CAPTURE(reduction, order);
    const std::vector<std::function<void(Litmus&)>> bodies{[=](Litmus& state) {
                                                               state.x.store(1, order);
                                                               state.a = state.y.load();
                                                           },
                                                           [=](Litmus& state) {
                                                               state.y.store(1, order);
                                                               state.b = state.x.load();
                                                           }};
    const Outcomes strong{{0, 1, 9, 9}, {1, 0, 9, 9}, {1, 1, 9, 9}};
    Outcomes weak = strong;
    weak.emplace(0, 0, 9, 9);
    CHECK(outcomes_of(bodies, {.reduction = reduction}) == strong);
    CHECK(outcomes_of(bodies, {.memory = Memory::store_buffers, .reduction = reduction}) ==
          (order == std::memory_order_seq_cst ? strong : weak));
}

TEST_CASE("a thread sees its own buffer, and the buffer keeps order", "[unit][explorer]") {
    const Reduction reduction = every_reduction();
    const Options options{.memory = Memory::store_buffers, .reduction = reduction};
    CAPTURE(reduction);
    SECTION("each sees its own store before the other's") {  // test n6 of the paper, without its last read
        const auto seen = outcomes_of({[](Litmus& state) {
                                           state.x.store(1, std::memory_order_release);
                                           state.a = state.x.load();
                                           state.b = state.y.load();
                                       },
                                       [](Litmus& state) {
                                           state.y.store(1, std::memory_order_release);
                                           state.c = state.y.load();
                                           state.d = state.x.load();
                                       }},
                                      options);
        CHECK(seen == Outcomes{{1, 0, 1, 0}, {1, 0, 1, 1}, {1, 1, 1, 0}, {1, 1, 1, 1}});
    }
    SECTION("message passing: never the later store without the earlier") {
        const auto seen = outcomes_of({[](Litmus& state) {
                                           state.x.store(1, std::memory_order_relaxed);
                                           state.y.store(1, std::memory_order_relaxed);
                                       },
                                       [](Litmus& state) {
                                           state.a = state.y.load();
                                           state.b = state.x.load();
                                       }},
                                      options);
        CHECK(seen == Outcomes{{0, 0, 9, 9}, {0, 1, 9, 9}, {1, 1, 9, 9}});
    }
    SECTION("two readers agree on the order of two writers' stores") {
        const auto seen = outcomes_of({[](Litmus& state) { state.x.store(1, std::memory_order_relaxed); },
                                       [](Litmus& state) { state.y.store(1, std::memory_order_relaxed); },
                                       [](Litmus& state) {
                                           state.a = state.x.load();
                                           state.b = state.y.load();
                                       },
                                       [](Litmus& state) {
                                           state.c = state.y.load();
                                           state.d = state.x.load();
                                       }},
                                      options);
        CHECK(seen.size() == 15);
        CHECK(seen.count({1, 0, 1, 0}) == 0);
    }
    SECTION("a read-modify-write empties the buffer first") {
        const auto seen = outcomes_of({[](Litmus& state) {
                                           state.x.store(1, std::memory_order_relaxed);
                                           state.a = state.y.fetch_add(1, std::memory_order_relaxed);
                                       },
                                       [](Litmus& state) {
                                           state.y.store(5);
                                           state.b = state.x.load();
                                       }},
                                      options);
        CHECK(seen == Outcomes{{0, 1, 9, 9}, {5, 0, 9, 9}, {5, 1, 9, 9}});
    }
}

struct Published {
    Word ready;
    Word other;
    ExploredPlain<std::uint64_t> payload;
};

[[nodiscard]] Exploration publish(std::memory_order publisher, std::memory_order reader, Memory memory) {
    return explore<Published>(
        [](Published& state) {
            label(&state.ready, "ready");
            label(&state.payload, "payload");
        },
        {[=](Published& state) {
             state.payload.write(42);
             state.ready.store(1, publisher);
         },
         [=](Published& state) {
             while (state.ready.load(reader) == 0) {
                 ExploredAtomics::pause();
             }
             RUEDA_EXPLORER_REQUIRE(state.payload.read() == 42);
         }},
        [](Published&) {}, {.memory = memory});
}

TEST_CASE("a publication without release or acquire is a race, though every value is right", "[unit][explorer]") {
    const Memory memory = GENERATE(Memory::sequentially_consistent, Memory::store_buffers);
    constexpr auto relaxed = std::memory_order_relaxed;
    CHECK(publish(std::memory_order_release, std::memory_order_acquire, memory).passed());
    CHECK(publish(std::memory_order_seq_cst, std::memory_order_seq_cst, memory).passed());
    for (const auto& [write, read] : {std::pair{relaxed, std::memory_order_acquire},
                                      std::pair{std::memory_order_release, relaxed}, std::pair{relaxed, relaxed}}) {
        const auto result = publish(write, read, memory);
        CHECK(result.failure == Failure::race);
        CHECK_THAT(result.report, Contains("data race on payload: thread 0 writes it and thread 1 reads it"));
    }
}

TEST_CASE("read-modify-writes continue a release sequence, plain stores end it", "[unit][explorer]") {
    const bool with_store = GENERATE(true, false);
    const auto result = explore<Published>(
        [](Published&) {},
        {[](Published& state) {
             state.payload.write(1);
             state.ready.store(1, std::memory_order_release);
         },
         [=](Published& state) {
             std::uint32_t expected = 1;
             if (with_store) {
                 if (state.ready.load(std::memory_order_relaxed) == 1) {
                     state.ready.store(2, std::memory_order_relaxed);
                 }
             } else {
                 state.ready.compare_exchange_strong(expected, 2, std::memory_order_relaxed, std::memory_order_relaxed);
             }
         },
         [](Published& state) {
             if (state.ready.load(std::memory_order_acquire) == 2) {
                 (void)state.payload.read();
             }
         }},
        [](Published&) {});
    CHECK(result.failure == (with_store ? Failure::race : Failure::none));
}

TEST_CASE("readers may share, a writer may not join them", "[unit][explorer]") {
    const auto read = [](Published& state) {
        (void)state.payload.read();
        state.ready.fetch_add(1, std::memory_order_release);
    };
    const auto write_after = [read](std::uint32_t readers) {
        return explore<Published>([](Published&) {},
                                  {read, read,
                                   [readers](Published& state) {
                                       if (state.ready.load(std::memory_order_acquire) >= readers) {
                                           state.payload.write(3);
                                       }
                                   }},
                                  [](Published&) {});
    };
    CHECK(write_after(2).passed());
    const auto early = write_after(1);
    CHECK(early.failure == Failure::race);
    CHECK_THAT(early.report, Contains("thread 2 writes it") && Contains("reads it"));
}

}  // namespace
}  // namespace rueda::explorer
