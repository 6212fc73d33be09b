// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "tests/support/explorer/explorer.hpp"

// The explorer skips schedules that are equivalent to others. The explorer must still find every outcome. The test
// explores small random programs with and without skipping. Both explorations must find the same set of outcomes.

namespace rueda::explorer {
namespace {

using Word = ExploredAtomics::Atomic<std::uint32_t>;
constexpr std::size_t kWords = 3;

// Sanitizers make an exploration 5 to 20 times slower, and find little in it, because it has only one operating-system
// thread. So builds with sanitizers test fewer programs.
#if defined(RUEDA_FEW_RANDOM_PROGRAMS)
constexpr int kPrograms = 15;
#else
constexpr int kPrograms = 150;
#endif

enum class Verb : std::uint8_t { load, store, weak_store, add, swap_if_equal, wait_for_change, sleep, wake };

struct Instruction {
    Verb verb;
    std::size_t word;
    std::size_t second_word;
    std::uint32_t value;
};
using Program = std::vector<std::vector<Instruction>>;

struct Machine {
    std::array<Word, kWords> words;
    std::array<std::vector<std::uint32_t>, 4> observed;
};

void run_instruction(Machine& machine, std::size_t thread, const Instruction& instruction) {
    std::vector<std::uint32_t>& observed = machine.observed[thread];
    Word& word = machine.words[instruction.word];
    Word& second = machine.words[instruction.second_word];
    switch (instruction.verb) {
        case Verb::load:
            observed.push_back(word.load());
            break;
        case Verb::store:
            word.store(instruction.value);
            break;
        case Verb::weak_store:
            word.store(instruction.value, std::memory_order_release);
            break;
        case Verb::add:
            observed.push_back(word.fetch_add(instruction.value));
            break;
        case Verb::swap_if_equal: {
            std::uint32_t expected = instruction.value;
            word.compare_exchange_strong(expected, instruction.value + 1);
            observed.push_back(expected);
            break;
        }
        case Verb::wait_for_change:
            while (word.load() == 0 && second.load() == 0) {
                ExploredAtomics::pause();
            }
            observed.push_back(word.load());
            break;
        case Verb::sleep:
            ExploredAtomics::futex_wait(word, 0);
            observed.push_back(77);
            break;
        case Verb::wake:
            word.fetch_add(1);
            ExploredAtomics::futex_wake_all(word);
            break;
    }
}

struct Seen {
    std::set<std::vector<std::uint32_t>> states;
    Exploration exploration;
};

[[nodiscard]] Seen everything(const Program& program, const Options& options) {
    Seen seen;
    std::vector<std::function<void(Machine&)>> bodies;
    for (std::size_t thread = 0; thread < program.size(); ++thread) {
        bodies.emplace_back([&program, thread](Machine& machine) {
            for (const Instruction& instruction : program[thread]) {
                run_instruction(machine, thread, instruction);
            }
        });
    }
    const auto collect = [&](Machine& machine) {
        std::vector<std::uint32_t> state;
        for (Word& word : machine.words) {
            state.push_back(word.load());
        }
        for (const auto& observed : machine.observed) {
            state.insert(state.end(), observed.begin(), observed.end());
            state.push_back(1000);
        }
        seen.states.insert(state);
    };
    seen.exploration = explore<Machine>([](Machine&) {}, bodies, collect, options);
    return seen;
}

[[nodiscard]] Program random_program(std::mt19937& random, std::size_t threads, std::size_t length,
                                     const std::vector<Verb>& verbs) {
    Program program(threads);
    for (auto& thread : program) {
        for (std::size_t i = 0; i < length; ++i) {
            thread.push_back({verbs[random() % verbs.size()], random() % kWords, random() % kWords,
                              static_cast<std::uint32_t>(random() % 2 + 1)});
        }
    }
    return program;
}

/// Returns true if the program has no deadlock. Only the outcomes of such programs are compared.
bool compare_reductions(const Program& program, Memory memory) {
    const Seen all = everything(program, {.memory = memory, .reduction = Reduction::none});
    for (const Reduction reduction : {Reduction::sleep_sets, Reduction::dynamic}) {
        const Seen reduced = everything(program, {.memory = memory, .reduction = reduction});
        CAPTURE(reduction, all.exploration.report, reduced.exploration.report, all.exploration.schedules,
                reduced.exploration.schedules);
        REQUIRE(reduced.exploration.failure == all.exploration.failure);
        if (all.exploration.failure == Failure::none) {
            REQUIRE(reduced.exploration.exhausted);
            REQUIRE(reduced.states == all.states);
            REQUIRE(reduced.exploration.schedules <= all.exploration.schedules);
        }
    }
    return all.exploration.failure == Failure::none;
}

TEST_CASE("reductions lose no outcome of random programs", "[unit][explorer]") {
    std::mt19937 random(20261121);
    SECTION("loads, stores and read-modify-writes, three threads") {
        for (int i = 0; i < kPrograms; ++i) {
            compare_reductions(random_program(random, 3, 3, {Verb::load, Verb::store, Verb::add, Verb::swap_if_equal}),
                               Memory::sequentially_consistent);
        }
    }
    SECTION("store buffers, two threads") {
        for (int i = 0; i < kPrograms; ++i) {
            compare_reductions(random_program(random, 2, 4, {Verb::load, Verb::weak_store, Verb::store, Verb::add}),
                               Memory::store_buffers);
        }
    }
    SECTION("store buffers, three threads") {
        for (int i = 0; i < kPrograms / 2; ++i) {
            compare_reductions(random_program(random, 3, 2, {Verb::load, Verb::weak_store, Verb::add}),
                               Memory::store_buffers);
        }
    }
    SECTION("loops that wait for a change, and sleep; most programs deadlock, all ways agree on which") {
        const Memory memory = GENERATE(Memory::sequentially_consistent, Memory::store_buffers);
        int compared = 0;
        for (int i = 0; i < kPrograms; ++i) {
            compared += compare_reductions(random_program(random, 3, 2,
                                                          {Verb::load, Verb::weak_store, Verb::add,
                                                           Verb::wait_for_change, Verb::sleep, Verb::wake}),
                                           memory);
        }
        CHECK(compared > kPrograms / 10);
    }
}

TEST_CASE("both reductions complete each order of conflicts once", "[unit][explorer]") {
    std::mt19937 random(4);
    for (int i = 0; i < kPrograms; ++i) {
        const Program program = random_program(random, 3, 3, {Verb::load, Verb::store, Verb::add});
        const Seen by_sleep = everything(program, {.reduction = Reduction::sleep_sets});
        const Seen by_races = everything(program, {.reduction = Reduction::dynamic});
        REQUIRE(by_sleep.exploration.schedules == by_races.exploration.schedules);
    }
}

}  // namespace
}  // namespace rueda::explorer
