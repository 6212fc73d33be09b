// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/shared_memory/step_page.hpp"
#include "launcher/processes/oom_kills.hpp"

namespace rueda::launcher {

/// A value of RankEnd::rank that stands for mpirun itself.
inline constexpr int kLauncherRank = -1;

/// The exit status of a program that could not be started, as in a shell.
inline constexpr int kNotStartedStatus = 127;

/// The exit status of a job that Rueda ended because an operation made no progress (RUEDA_STALL_SHUTDOWN_TIME_SECONDS).
/// Neither <sysexits.h> nor shells nor `timeout` use this value.
inline constexpr int kStalledStatus = 79;

/// How a rank ended.
struct RankEnd {
    int rank = 0;
    pid_t pid = 0;
    int wait_status = 0;
    std::string start_error;  ///< the reason why the program could not be started; empty if it was started
    /// Whether mpirun sent a signal to the rank. If so, the end of this rank is only a consequence. The reason why
    /// mpirun sent the signal is the cause of the failure, and ruedarun reports it if it is known.
    bool by_launcher = false;
    std::string host{};  ///< the rank's host; empty for this host
    bool lost = false;   ///< whether the connection to the rank's parent was lost before the parent reported the rank's
                         ///< end
    /// The reason why the job was aborted, if the rank reported one before its end; otherwise empty. If the rank
    /// reported a reason, its end is not the cause of the job's end, and its exit status does not matter.
    std::string abort_reason{};
    /// For a killed rank: how many processes the kernel killed for lack of memory while the rank ran.
    OomKills oom_kills{};
    base::StepSpan steps{};  ///< the training steps that the rank counted
    /// Whether the rank ended with exit status 0 while other ranks were waiting for it. Those other ranks report that
    /// the job was aborted because of this end.
    bool left_early = false;
};

/// Makes a RankEnd for a program that was never started.
[[nodiscard]] RankEnd not_started(int rank, std::string error);
/// Makes a RankEnd for a program that the system refused to run.
[[nodiscard]] RankEnd not_started(int rank, const std::string& program, int error_number);

[[nodiscard]] bool ended_well(const RankEnd& end);

/// Returns the exit status of the rank. For a killed process it is 128 + the signal's number, as in a shell.
[[nodiscard]] int exit_status_of(const RankEnd& end);

/// Returns the C library's English name of a signal, for example "Killed".
[[nodiscard]] std::string signal_text(int number);

/// Describes how a rank ended, and what is known about the reason, for example "rank 1 (pid 4711) was killed by signal
/// 9 (Killed)".
[[nodiscard]] std::string describe(const RankEnd& end);

/// Finds the cause of a job's end, and the job's exit status, from the ends of all ranks. The first failure is the
/// cause, because later failures are mostly its consequences.
class JobOutcome {
public:
    /// Adds the ends of ranks that ruedarun noticed at the same moment. If one of these ranks was killed, its end
    /// counts as the first one. The reason is that a killed rank can make other ranks end with an error, but an error
    /// of another rank does not kill a rank.
    void add(const std::vector<RankEnd>& together);
    /// Whether the cause is still unknown. This is the case if ranks have failed, but only because mpirun sent a signal
    /// or because the job was aborted before.
    [[nodiscard]] bool is_unsettled() const { return !cause_ && echo_; }
    /// Whether the cause is unknown, and the only known failure is the end of a rank that reported an abort. If all
    /// ranks have ended and the function still returns true, ruedarun will not find a better cause.
    [[nodiscard]] bool has_only_echoes_of_abort() const { return is_unsettled() && !echo_->abort_reason.empty(); }
    /// Call this when ruedarun cannot find a better cause any more. The known failure becomes the cause. If the reason
    /// of the abort names a rank that ended with exit status 0, the end of that rank becomes the cause instead.
    void settle();
    /// Call this when the user ends the job by a signal. The signal becomes the cause, unless a rank failed before.
    void interrupt(int signal_number);

    [[nodiscard]] const std::optional<RankEnd>& cause() const { return cause_; }
    [[nodiscard]] int exit_status() const;
    /// Whether another attempt may succeed. This is so if a rank failed by itself. Wrong arguments (exit status 2) and
    /// programs that cannot be run (126, 127) do not count as such a failure.
    [[nodiscard]] bool is_worth_another_try() const;

private:
    std::optional<RankEnd> cause_;
    std::optional<RankEnd> echo_;
    std::vector<RankEnd> ended_well_;
    int interrupted_by_ = 0;
};

}  // namespace rueda::launcher
