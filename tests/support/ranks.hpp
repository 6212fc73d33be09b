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

/// The functions that the body of a rank can use. Threads: the rank's own thread. phase() and report() may also be
/// called by other threads of the rank, one at a time.
class RankContext {
public:
    RankContext(int rank, detail::Board& board, detail::Ways& ways) : rank_(rank), board_(board), ways_(ways) {}
    RankContext(const RankContext&) = delete;
    RankContext& operator=(const RankContext&) = delete;

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const;
    [[nodiscard]] RanksAs as() const;

    /// Sets a text of at most 95 characters that says what the rank does now. If the rank hangs, the watchdog prints
    /// this text.
    void phase(std::string_view text);
    /// Adds a value to this rank's outcome, or replaces the value of the same key.
    void report(const std::string& key, const std::string& value);
    template <class T>
    void report(const std::string& key, const T& value) {
        report(key, fmt::format("{}", value));
    }

    /// Opens a new control plane of all ranks. The call is collective: the n-th calls of all ranks open the same plane.
    [[nodiscard]] Result<std::unique_ptr<collectives::ControlPlane>> open_control_plane();

    /// Waits until the rank has entered the phase, even if the rank has already left it again. Throws at the deadline,
    /// or if the rank ended without entering the phase.
    void wait_for_phase(int rank, std::string_view text) const;
    /// Sends a signal to a rank that is a process. Does nothing if the rank has ended.
    void kill_rank(int rank, int signal) const;
    /// Stops another rank, and waits until all threads of that rank have stopped.
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
    /// Sends a signal to a rank that is a process. Does nothing if the rank has ended.
    void kill_rank(int rank, int signal) const;
    /// Stops the rank, and waits until all its threads have stopped.
    void stop_rank(int rank) const;
    void continue_rank(int rank) const { kill_rank(rank, SIGCONT); }

private:
    detail::Board& board_;
    const RanksAs as_;
};

struct RanksOptions {
    RanksAs as = RanksAs::threads;
    /// The time limit of the run. At the deadline the watchdog prints each rank's phase, and kills the ranks'
    /// processes. If the ranks are threads, the watchdog ends the whole test.
    std::chrono::milliseconds deadline = std::chrono::seconds(60);
    /// Runs on the caller's thread while the ranks run. This function may use Catch's assertions.
    std::function<void(RunningRanks&)> meanwhile = nullptr;
};

enum class RankEnd : std::uint8_t {
    returned,
    threw,   ///< the body threw an exception, which `text` describes
    exited,  ///< the body ended the process itself, with exit_status
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

    /// Returns the reported value. Throws if the rank did not report the key.
    [[nodiscard]] const std::string& value(const std::string& key) const;
};

struct RanksResult {
    std::vector<RankOutcome> ranks;
    /// The things that the ranks left behind: one line for each process, each descriptor, and each file in /dev/shm or
    /// in the temporary folder.
    std::vector<std::string> leaks;

    /// Returns true if all ranks returned and nothing was left behind.
    [[nodiscard]] bool passed() const;
    /// Returns a text for Catch's INFO, with a line for each rank and each leak.
    [[nodiscard]] std::string text() const;
};

/// Runs `body` on each of `size` ranks (at most 64), as threads or as forked processes. All ranks begin at the same
/// time. Returns when all ranks have ended. The environment variable TMPDIR names a new folder, which must be empty at
/// the end.
///
/// A body fails by an exception, for example of RUEDA_RANK_CHECK. It must not use Catch's assertions, which are lost in
/// a child process and do not work in several threads. If the ranks are processes, the caller's process must have no
/// other threads.
[[nodiscard]] RanksResult run_ranks(int size, const std::function<void(RankContext&)>& body,
                                    const RanksOptions& options = {});

/// Thrown if an expectation of a body fails.
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

/// Compares two values. The message of a failure contains both.
#define RUEDA_RANK_EQUAL(found, expected)                                                                            \
    do {                                                                                                             \
        const auto& rueda_found = (found);                                                                           \
        const auto& rueda_expected = (expected);                                                                     \
        if (!(rueda_found == rueda_expected)) {                                                                      \
            throw ::rueda::tests::RankCheckFailed(fmt::format("{} is {}, expected {} at {}:{}", #found, rueda_found, \
                                                              rueda_expected, __FILE__, __LINE__));                  \
        }                                                                                                            \
    } while (false)
