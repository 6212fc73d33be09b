// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/explorer/explored_atomics.hpp"

namespace rueda::explorer {

enum class Memory : std::uint8_t {
    /// Each operation takes effect at once, in the order of the schedule.
    sequentially_consistent,
    /// A model of x86. A store weaker than seq_cst stays in its thread's store buffer and reaches memory at some later
    /// time, in the order of the thread's stores. Read-modify-writes, seq_cst stores and futex calls first empty the
    /// buffer. A load also sees the stores in the buffer of its own thread.
    store_buffers,
};

enum class Reduction : std::uint8_t {
    none,  ///< runs every interleaving
    /// Runs only one of several interleavings that differ only in the order of independent operations.
    sleep_sets,
    dynamic,  ///< like sleep_sets, but tries another order of two operations only if they were seen to conflict
};

struct Options {
    Memory memory = Memory::sequentially_consistent;
    /// Which schedules the explorer need not run. Ignored if `preemptions` has a value, because a reduction could skip
    /// schedules that have few preemptions.
    Reduction reduction = Reduction::dynamic;
    /// The maximum number of preemptions: switches away from a thread that could continue. Switches to store buffers do
    /// not count.
    std::optional<int> preemptions = std::nullopt;
    std::uint64_t schedules = std::numeric_limits<std::uint64_t>::max();
    /// The maximum length of a schedule. A longer schedule is a failure: the code has an endless loop, or a spin loop
    /// without pause().
    std::size_t steps = 10'000;
    /// If true, pause() waits until a value changes that the thread has read since its last pause(). Spin loops
    /// therefore end. No schedule is missed if each iteration of the loop depends only on such values. If false,
    /// pause() does nothing, which is right for loops that count their iterations.
    bool pause_waits = true;
};

enum class Failure : std::uint8_t { none, check, exception, deadlock, race, too_long, not_repeatable };

struct Exploration {
    Failure failure = Failure::none;
    /// The failure and its schedule, one line per operation. Empty after a success.
    std::string report;
    std::uint64_t schedules = 0;  ///< number of schedules that ran to their end
    std::uint64_t cut = 0;        ///< number of schedules that were given up because they repeat an earlier one
    std::size_t longest = 0;      ///< steps of the longest schedule
    bool exhausted = false;       ///< whether all schedules (within the bound on preemptions) were explored

    [[nodiscard]] bool passed() const { return failure == Failure::none && exhausted; }
};

/// The part of explore() that does not depend on the state's type.
[[nodiscard]] Exploration explore_erased(const std::function<void()>& setup,
                                         const std::vector<std::function<void()>>& bodies,
                                         const std::function<void()>& check, const Options& options);

/// Runs each body as a thread, in all schedules of their operations on ExploredAtomics. Each schedule begins with a new
/// State that `setup` prepares, and `check` examines the State after the last thread has ended. The exploration ends at
/// the first failure.
///
/// The bodies must be repeatable: they must not use clocks, random numbers, or other threads. After a failure, the
/// threads are abandoned without unwinding their stacks, so memory that the stacks own is leaked.
template <class State>
[[nodiscard]] Exploration explore(const std::function<void(State&)>& setup,
                                  const std::vector<std::function<void(State&)>>& bodies,
                                  const std::function<void(State&)>& check, const Options& options = {}) {
    std::optional<State> state;
    std::vector<std::function<void()>> threads;
    threads.reserve(bodies.size());
    for (const auto& body : bodies) {
        threads.emplace_back([&state, &body] { body(*state); });
    }
    return explore_erased(
        [&] {
            state.emplace();
            setup(*state);
        },
        threads, [&] { check(*state); }, options);
}

/// Ends the exploration with a failure. Bodies, setup and check may call this function.
[[noreturn]] void explorer_fail(std::string_view text);

}  // namespace rueda::explorer

/// Bodies use this macro instead of Catch2's REQUIRE. REQUIRE would throw an exception, and would count an assertion in
/// every schedule.
#define RUEDA_EXPLORER_REQUIRE(condition)                                                                       \
    do {                                                                                                        \
        if (!(condition)) {                                                                                     \
            ::rueda::explorer::explorer_fail(#condition " does not hold, line " RUEDA_EXPLORER_LINE(__LINE__)); \
        }                                                                                                       \
    } while (false)
#define RUEDA_EXPLORER_LINE(line) RUEDA_EXPLORER_TEXT(line)
#define RUEDA_EXPLORER_TEXT(line) #line
