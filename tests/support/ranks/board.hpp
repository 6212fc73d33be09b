// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "collectives/control_plane.hpp"
#include "tests/support/ranks.hpp"

namespace rueda::tests::detail {

inline constexpr int kMaxRanks = 64;

/// Memory through which the ranks and the test learn about each other. Forked ranks share this memory with the test.
/// Threads: all threads of all processes.
class Board {
public:
    Board(int size, std::chrono::milliseconds deadline);
    ~Board();
    Board(const Board&) = delete;
    Board& operator=(const Board&) = delete;

    [[nodiscard]] int size() const { return size_; }
    [[nodiscard]] std::chrono::steady_clock::time_point deadline() const { return deadline_; }

    void enter_phase(int rank, std::string_view text);
    [[nodiscard]] std::string phase_of(int rank) const;
    [[nodiscard]] bool was_in_phase(int rank, std::string_view text) const;
    void wait_for_phase(int rank, std::string_view text) const;

    /// Starts all ranks. The ranks wait until this function is called, so that the board has the ids of all processes
    /// when they start.
    void start();
    void wait_for_start() const;
    void set_process(int rank, int pid);
    [[nodiscard]] int process_of(int rank) const;  ///< 0 if the rank is a thread or has ended
    /// Call this function before the test reaps the rank's process. After that, the system may give the
    /// same process id to another process.
    void set_ended(int rank);
    void send_signal(int rank, int signal) const;

    /// Returns the watchdog's text: each rank's phase, the time since the phase began, and the state of the process.
    [[nodiscard]] std::string describe() const;

private:
    struct Shared;
    void changed();
    void check_rank(int rank) const;

    const int size_;
    const std::chrono::steady_clock::time_point deadline_;
    Shared* shared_;
};

/// The functions behind RankContext, which differ between threads and processes.
struct Ways {
    RanksAs as = RanksAs::threads;
    std::function<void(int rank, const std::string& key, const std::string& value)> report;
    std::function<Result<std::unique_ptr<collectives::ControlPlane>>(int rank, int number)> open_control_plane;
};

/// Run the ranks, and return their outcomes in rank order.
std::vector<RankOutcome> run_as_threads(const std::function<void(RankContext&)>& body, const RanksOptions& options,
                                        Board& board);
std::vector<RankOutcome> run_as_processes(const std::function<void(RankContext&)>& body, const RanksOptions& options,
                                          Board& board);

}  // namespace rueda::tests::detail
