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
    /// Operations take effect at once, in the order of the schedule.
    sequentially_consistent,
    /// Models x86. A store weaker than seq_cst waits in its thread's buffer, and reaches memory at any later time;
    /// stores of one thread keep their order. Read-modify-writes, seq_cst stores and futex calls empty the buffer
    /// first. A load also sees the stores in its own thread's buffer.
    store_buffers,
};

enum class Reduction : std::uint8_t {
    none,  ///< every interleaving
    /// of the interleavings that differ only in the order of commuting operations, runs only one to its end
    sleep_sets,
    dynamic,  ///< like sleep_sets, but branches only where two operations were seen to conflict
};

struct Options {
    Memory memory = Memory::sequentially_consistent;
    /// Ignored if `preemptions` is set; then no reduction is used, because it might omit the schedules that are within
    /// the bound.
    Reduction reduction = Reduction::dynamic;
    /// The maximum number of switches away from a thread that could have continued. Switches to store buffers do not
    /// count.
    std::optional<int> preemptions = std::nullopt;
    std::uint64_t schedules = std::numeric_limits<std::uint64_t>::max();
    /// A schedule with more operations is reported as a failure. It contains an endless loop, or a spin loop without
    /// pause().
    std::size_t steps = 10'000;
    /// If true, pause() waits until a value changes that the thread has read since its last pause(). So spin loops end.
    /// No schedule is missed if an iteration of the loop depends only on these values. If false, pause() does nothing;
    /// use this for loops that count their turns.
    bool pause_waits = true;
};

enum class Failure : std::uint8_t { none, check, exception, deadlock, race, too_long, not_repeatable };

struct Exploration {
    Failure failure = Failure::none;
    /// Describes the failure and the schedule that led to it, one line per operation. Empty after a success.
    std::string report;
    std::uint64_t schedules = 0;  ///< number of schedules that ran to their end
    std::uint64_t cut = 0;        ///< number of schedules that repeated a completed schedule and were not counted
    std::size_t longest = 0;      ///< steps of the longest schedule
    bool exhausted = false;       ///< true if all schedules (within the bound on preemptions) were explored

    [[nodiscard]] bool passed() const { return failure == Failure::none && exhausted; }
};

/// This part of explore() does not depend on the type of the state.
[[nodiscard]] Exploration explore_erased(const std::function<void()>& setup,
                                         const std::vector<std::function<void()>>& bodies,
                                         const std::function<void()>& check, const Options& options);

/// Runs each body as a thread. Explores all schedules of the threads' operations on ExploredAtomics. For each schedule,
/// explore() creates a State and passes it to `setup`. After the last thread has ended, `check` examines the State. The
/// exploration ends at the first failure.
///
/// The bodies must be repeatable: they must not use clocks, random numbers, or other threads. After a failure, the
/// running threads are abandoned and their stacks are not unwound. So memory that these stacks own is leaked.
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

/// Ends the schedule as a failure. Bodies, setup and check may call it.
[[noreturn]] void explorer_fail(std::string_view text);

}  // namespace rueda::explorer

/// Catch2's REQUIRE cannot be used in bodies: it throws, and it counts every schedule as an assertion.
#define RUEDA_EXPLORER_REQUIRE(condition)                                                                       \
    do {                                                                                                        \
        if (!(condition)) {                                                                                     \
            ::rueda::explorer::explorer_fail(#condition " does not hold, line " RUEDA_EXPLORER_LINE(__LINE__)); \
        }                                                                                                       \
    } while (false)
#define RUEDA_EXPLORER_LINE(line) RUEDA_EXPLORER_TEXT(line)
#define RUEDA_EXPLORER_TEXT(line) #line
