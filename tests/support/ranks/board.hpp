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

/// Memory by which the ranks of a run and the test exchange what they know about each other. Forked ranks share it with
/// the test. Threads and processes: any may use it.
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

    /// Ranks wait for the start. So the board knows the process ids of all ranks before any body runs.
    void start();
    void wait_for_start() const;
    void set_process(int rank, int pid);
    [[nodiscard]] int process_of(int rank) const;  ///< 0 if the rank is a thread, or has ended
    /// Call it before the process is reaped, because afterwards the kernel may give its number to another process.
    void set_ended(int rank);
    void send_signal(int rank, int signal) const;

    /// Returns a text for the watchdog: the phase of each rank, the time since it began, and the state of its process.
    [[nodiscard]] std::string describe() const;

private:
    struct Shared;
    void changed();
    void check_rank(int rank) const;

    const int size_;
    const std::chrono::steady_clock::time_point deadline_;
    Shared* shared_;
};

/// The functions of RankContext that differ between threads and processes.
struct Ways {
    RanksAs as = RanksAs::threads;
    std::function<void(int rank, const std::string& key, const std::string& value)> report;
    std::function<Result<std::unique_ptr<collectives::ControlPlane>>(int rank, int number)> open_control_plane;
};

/// These functions run the ranks. They return the outcomes of the ranks, in rank order.
std::vector<RankOutcome> run_as_threads(const std::function<void(RankContext&)>& body, const RanksOptions& options,
                                        Board& board);
std::vector<RankOutcome> run_as_processes(const std::function<void(RankContext&)>& body, const RanksOptions& options,
                                          Board& board);

}  // namespace rueda::tests::detail
