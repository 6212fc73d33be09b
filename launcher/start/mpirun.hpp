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

/// Starts the mpirun of a job, forwards its error output, and ends it. Threads: only one thread may use an object.
class Mpirun {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    /// How long to wait after release() before mpirun gets SIGTERM. Open MPI 4 exits within 0.1 s, or about 1 s if it
    /// has to clean up.
    static constexpr std::chrono::milliseconds kLeaves{2000};
    /// How long to wait instead of kLeaves if a rank has failed. After a failure, Open MPI 4 on several hosts often
    /// does not exit, because ruedarun has told it by parameters not to kill the other ranks. Only SIGKILL ends such an
    /// mpirun.
    static constexpr std::chrono::milliseconds kLeavesAfterFailure{500};

    /// The object calls this with the text that mpirun writes to its standard error. mpirun's standard output is
    /// ruedarun's own.
    std::function<void(std::string_view)> on_error_text;

    [[nodiscard]] Status start(const LaunchPlan& plan, const StartContext& context,
                               const std::vector<EnvironmentChange>& more = {});
    void add_to(base::PollSet& set);
    /// Call this when the child `pid` has ended. If the child was mpirun, forwards its last error output and returns
    /// true.
    [[nodiscard]] bool ended(pid_t pid);
    void signal(int signal_number) const;
    /// Call this when all ranks have ended. If mpirun does not exit within `patience`, it gets SIGTERM, and later
    /// SIGKILL.
    void release(TimePoint now, std::chrono::milliseconds patience = kLeaves);
    [[nodiscard]] bool is_released() const { return released_; }
    void advance(TimePoint now);
    [[nodiscard]] bool is_gone() const { return pid_ == 0; }

private:
    void read_errors();

    base::UniqueFd errors_;
    pid_t pid_ = 0;  ///< 0: mpirun was not started, or its exit status was collected
    bool released_ = false;
    int next_signal_ = SIGTERM;  ///< the next signal that mpirun gets if it does not exit
    TimePoint deadline_;
};

}  // namespace rueda::launcher
