// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/network/poll_set.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "launcher/plan/plan.hpp"
#include "launcher/watch/rank_group.hpp"

namespace rueda::launcher {

/// The processes of this host that start the supervisors (the parents of the ranks): mpirun, or the agents of the
/// hosts. Threads: only one thread may use an object.
class RankStarter {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    /// How long release() lets the processes run before SIGTERM, and then before SIGKILL.
    struct Patience {
        std::chrono::milliseconds before_sigterm;
        std::chrono::milliseconds before_sigkill;
    };
    /// The times before the signals if the job has ended without a failure. Open MPI 4 exits within 0.1 s, or about 1 s
    /// if it has to clean up.
    static constexpr Patience kLeaves{std::chrono::milliseconds(2000), std::chrono::milliseconds(1000)};
    /// The times before the signals if a rank has failed. After a failure, Open MPI 4 on several hosts often does not
    /// exit, because ruedarun has told it by parameters not to kill the other ranks. Only SIGKILL ends such an mpirun.
    static constexpr Patience kLeavesAfterFailure{std::chrono::milliseconds(500), std::chrono::milliseconds(1000)};
    /// The times before the signals if a host does not answer. Open MPI 4 cannot exit normally in this case, because it
    /// waits for its daemon on that host. An ssh to that host would wait for TCP's time limit.
    static constexpr Patience kLeavesAfterLoss{std::chrono::milliseconds(0), std::chrono::milliseconds(300)};

    /// How one of the processes (mpirun, or the agent of a host) has ended.
    struct End {
        bool was_launcher = false;  ///< whether the process was mpirun, without which no rank can go on
        int first_rank = 0;         ///< if the process was not mpirun: the lowest rank that the process has started
        int ranks = 0;
        std::string text;  ///< what ended, for example "ssh b ended with exit status 255"
    };

    virtual ~RankStarter() = default;

    /// The object calls this function with the text that the processes write to their standard error.
    std::function<void(std::string_view)> on_error_text;

    /// Starts the processes. `more`: variables for the supervisors, which contain the secrets of the job.
    [[nodiscard]] virtual Status start(const LaunchPlan& plan, const StartContext& context,
                                       const std::vector<EnvironmentChange>& more) = 0;
    virtual void add_to(base::PollSet& set) = 0;
    /// Call this when the child `pid` has ended. If the child was one of the processes, forwards its last error output,
    /// and returns what ended.
    [[nodiscard]] virtual std::optional<End> ended(pid_t pid, int wait_status) = 0;
    virtual void signal(int signal_number) const = 0;
    /// Call this when all ranks have ended. If the processes do not exit within the times of `patience`, they get
    /// SIGTERM, and later SIGKILL.
    void release(TimePoint now, Patience patience);
    [[nodiscard]] bool is_released() const { return released_; }
    void advance(TimePoint now);
    /// Whether all processes have exited.
    [[nodiscard]] virtual bool is_gone() const = 0;

protected:
    /// Adds a pipe with error output to `set`. `errors` is the reading end. Output is read when it arrives.
    void add_errors(base::UniqueFd& errors, base::PollSet& set);
    /// Adds to `set` the time at which advance() must be called.
    void add_deadline(base::PollSet& set) const;
    /// Forwards everything that a process has written before it ended. These lines often say why it ended, so they must
    /// come before the line about its end.
    void read_last_errors(base::UniqueFd& errors);

private:
    /// Reads once, without blocking. Returns whether something was read.
    bool read_errors(base::UniqueFd& errors);

    bool released_ = false;
    int next_signal_ = SIGTERM;  ///< the next signal for processes that do not exit
    TimePoint deadline_;
    std::chrono::milliseconds before_sigkill_{0};
};

}  // namespace rueda::launcher
