// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <functional>
#include <string_view>
#include <utility>

#include "base/unique_fd.hpp"
#include "launcher/plan/plan.hpp"
#include "launcher/watch/rank_group.hpp"

namespace rueda::launcher {

/// Starts the mpirun of a job, passes on its error output, and ends it. Threads: one.
class Mpirun {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    /// How long to wait after release() before mpirun gets SIGTERM. Open MPI 4 exits within 0.1 s, or within about 1 s
    /// if it has to clean up.
    static constexpr std::chrono::milliseconds kLeaves{2000};
    /// The same after a rank has failed. In this case, Open MPI 4 on several hosts often does not exit at all, because
    /// its parameters tell it not to kill surviving ranks. Then only SIGKILL ends it.
    static constexpr std::chrono::milliseconds kLeavesAfterFailure{500};

    /// A function that gets the text that mpirun writes to its standard error. mpirun writes directly to ruedarun's
    /// standard output.
    std::function<void(std::string_view)> on_error_text;

    [[nodiscard]] Status start(const LaunchPlan& plan, const StartContext& context,
                               const std::vector<EnvironmentChange>& more = {});
    void add_to(PollSet& set);
    /// Call this when the process `pid` has ended. Returns true if it is mpirun; then mpirun's last error output was
    /// passed on.
    [[nodiscard]] bool ended(pid_t pid);
    void signal(int signal_number) const;
    /// Call this when all ranks have ended. If mpirun has not exited after `patience`, it gets SIGTERM, and later
    /// SIGKILL.
    void release(TimePoint now, std::chrono::milliseconds patience = kLeaves);
    [[nodiscard]] bool is_released() const { return released_; }
    void advance(TimePoint now);
    [[nodiscard]] bool is_gone() const { return pid_ == 0; }

private:
    void read_errors();

    base::UniqueFd errors_;
    pid_t pid_ = 0;  ///< 0: not started, or reaped
    bool released_ = false;
    int next_signal_ = SIGTERM;  ///< the next signal to send if mpirun does not exit
    TimePoint deadline_;
};

}  // namespace rueda::launcher
