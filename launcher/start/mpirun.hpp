// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <functional>
#include <string>
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

    /// `before_sigterm` is the time that release() gives mpirun before SIGTERM, and `before_sigkill` is the time
    /// between SIGTERM and SIGKILL.
    struct Patience {
        std::chrono::milliseconds before_sigterm;
        std::chrono::milliseconds before_sigkill;
    };
    /// Open MPI 4 exits within 0.1 s, or about 1 s if it has to clean up.
    static constexpr Patience kLeaves{std::chrono::milliseconds(2000), std::chrono::milliseconds(1000)};
    /// The times if a rank has failed. After a failure, Open MPI 4 on several hosts often does not exit, because
    /// ruedarun has told it by parameters not to kill the other ranks. Only SIGKILL ends such an mpirun.
    static constexpr Patience kLeavesAfterFailure{std::chrono::milliseconds(500), std::chrono::milliseconds(1000)};
    /// The times if a host does not answer. Then Open MPI 4 cannot exit normally, because it waits for its daemon on
    /// that host.
    static constexpr Patience kLeavesAfterLoss{std::chrono::milliseconds(0), std::chrono::milliseconds(300)};

    /// The object calls this with the text that mpirun writes to its standard error. mpirun's standard output is
    /// ruedarun's own.
    std::function<void(std::string_view)> on_error_text;

    [[nodiscard]] Status start(const LaunchPlan& plan, const StartContext& context,
                               const std::vector<EnvironmentChange>& more = {});
    void add_to(base::PollSet& set);
    /// Call this when the child `pid` has ended. If the child was mpirun, forwards its last error output and returns
    /// true. If a signal ended mpirun, also removes the temporary folder that Open MPI's mpirun had no time to remove.
    [[nodiscard]] bool ended(pid_t pid, int wait_status);
    void signal(int signal_number) const;
    /// Call this when all ranks have ended. If mpirun does not exit within the times of `patience`, it gets SIGTERM,
    /// and later SIGKILL.
    void release(TimePoint now, Patience patience);
    [[nodiscard]] bool is_released() const { return released_; }
    void advance(TimePoint now);
    [[nodiscard]] bool is_gone() const { return pid_ == 0; }

private:
    void read_errors();

    base::UniqueFd errors_;
    std::string temporary_folder_;  ///< the folder in which mpirun makes its temporary files
    pid_t pid_ = 0;                 ///< 0: mpirun was not started, or its exit status was collected
    bool released_ = false;
    int next_signal_ = SIGTERM;  ///< the next signal that mpirun gets if it does not exit
    TimePoint deadline_;
    std::chrono::milliseconds before_sigkill_{0};
};

}  // namespace rueda::launcher
