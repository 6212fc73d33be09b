// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/control_plane.hpp"

namespace rueda::tests {

namespace detail {
class Board;
struct Ways;
}  // namespace detail

enum class RanksAs : std::uint8_t { threads, processes };

/// The functions that the body of a rank can use. Threads: the rank's own thread; any thread of the rank may call
/// phase() and report(), but only one at a time.
class RankContext {
public:
    RankContext(int rank, detail::Board& board, detail::Ways& ways) : rank_(rank), board_(board), ways_(ways) {}
    RankContext(const RankContext&) = delete;
    RankContext& operator=(const RankContext&) = delete;

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const;
    [[nodiscard]] RanksAs as() const;

    /// Sets the text that says what the rank does from now on, with at most 95 characters. If the rank hangs, the
    /// watchdog prints this text.
    void phase(std::string_view text);
    /// Adds a value to the outcome of this rank. If the key was given before, the value is replaced.
    void report(const std::string& key, const std::string& value);
    template <class T>
    void report(const std::string& key, const T& value) {
        report(key, fmt::format("{}", value));
    }

    /// Opens a new control plane of all ranks, for threads or for processes. Collective: the n-th calls of all ranks
    /// belong together.
    [[nodiscard]] Result<std::unique_ptr<collectives::ControlPlane>> open_control_plane();

    /// Waits until the given rank has entered the phase; it may already have left the phase again. Throws an exception
    /// at the deadline, or if the rank has ended without entering the phase.
    void wait_for_phase(int rank, std::string_view text) const;
    /// For processes only. Does nothing if the rank has ended.
    void kill_rank(int rank, int signal) const;
    /// Stops another rank. Returns when all its threads have stopped.
    void stop_rank(int rank) const;
    void continue_rank(int rank) const { kill_rank(rank, SIGCONT); }

private:
    const int rank_;
    detail::Board& board_;
    detail::Ways& ways_;
    int planes_ = 0;
};

/// The running ranks, as the test sees them.
class RunningRanks {
public:
    explicit RunningRanks(detail::Board& board, RanksAs as) : board_(board), as_(as) {}

    [[nodiscard]] std::string phase_of(int rank) const;
    void wait_for_phase(int rank, std::string_view text) const;
    /// For processes only. Does nothing if the rank has ended.
    void kill_rank(int rank, int signal) const;
    /// Stops the rank. Returns when all threads of the rank have stopped.
    void stop_rank(int rank) const;
    void continue_rank(int rank) const { kill_rank(rank, SIGCONT); }

private:
    detail::Board& board_;
    const RanksAs as_;
};

struct RanksOptions {
    RanksAs as = RanksAs::threads;
    /// The time limit for all ranks. When it has passed, the watchdog prints the phase of each rank. Then it kills the
    /// processes or, with threads, the whole test.
    std::chrono::milliseconds deadline = std::chrono::seconds(60);
    /// Runs on the caller's thread while the ranks run. It may use Catch's assertions.
    std::function<void(RunningRanks&)> meanwhile = nullptr;
};

enum class RankEnd : std::uint8_t {
    returned,
    threw,   ///< the body threw an exception; `text` describes it
    exited,  ///< the body did not return: it ended the process itself, with exit_status
    killed,  ///< the signal `signal` killed the process
    hung,    ///< the watchdog killed the process at the deadline
};

struct RankOutcome {
    RankEnd end = RankEnd::returned;
    int exit_status = 0;
    int signal = 0;
    std::string text;
    std::string last_phase;
    std::map<std::string, std::string> values;

    /// Throws an exception if the rank did not report the key.
    [[nodiscard]] const std::string& value(const std::string& key) const;
};

struct RanksResult {
    std::vector<RankOutcome> ranks;
    /// Describes what was left behind. It has one line for each process, each descriptor, and each file in /dev/shm or
    /// in the temporary folder.
    std::vector<std::string> leaks;

    /// Returns true if all ranks returned and nothing was left behind.
    [[nodiscard]] bool passed() const;
    /// Returns a text for Catch's INFO, with a line for each rank and each leak.
    [[nodiscard]] std::string text() const;
};

/// Runs `body` once for each of `size` ranks (at most 64), as threads or as forked processes, and returns when all
/// ranks have ended. All ranks begin at the same moment. In their environment, TMPDIR names a new folder. It must be
/// empty at the end.
///
/// A body fails if it throws an exception, for example by RUEDA_RANK_CHECK. It cannot use Catch's assertions:
/// assertions in a child process are lost, and Catch does not support assertions in several threads. If ranks are
/// processes, the parent must have no other threads.
[[nodiscard]] RanksResult run_ranks(int size, const std::function<void(RankContext&)>& body,
                                    const RanksOptions& options = {});

/// The exception for a failed expectation in a body.
struct RankCheckFailed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace rueda::tests

#define RUEDA_RANK_CHECK(condition)                                                        \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            throw ::rueda::tests::RankCheckFailed(                                         \
                fmt::format("{} does not hold at {}:{}", #condition, __FILE__, __LINE__)); \
        }                                                                                  \
    } while (false)

/// The message contains both values.
#define RUEDA_RANK_EQUAL(found, expected)                                                                            \
    do {                                                                                                             \
        const auto& rueda_found = (found);                                                                           \
        const auto& rueda_expected = (expected);                                                                     \
        if (!(rueda_found == rueda_expected)) {                                                                      \
            throw ::rueda::tests::RankCheckFailed(fmt::format("{} is {}, expected {} at {}:{}", #found, rueda_found, \
                                                              rueda_expected, __FILE__, __LINE__));                  \
        }                                                                                                            \
    } while (false)
