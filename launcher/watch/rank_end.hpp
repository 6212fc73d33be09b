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

/// The value of RankEnd::rank that stands for mpirun itself.
inline constexpr int kLauncherRank = -1;

/// The exit status of a program that could not be started, as in a shell.
inline constexpr int kNotStartedStatus = 127;

/// The exit status of a job that Rueda ended because an operation stood still (RUEDA_STALL_SHUTDOWN_TIME_SECONDS). No
/// status of <sysexits.h>, of a shell or of `timeout` has this value.
inline constexpr int kStalledStatus = 79;

/// How a rank ended.
struct RankEnd {
    int rank = 0;
    pid_t pid = 0;
    int wait_status = 0;
    std::string start_error;  ///< if not empty, the program was never started, for this reason
    /// Whether mpirun sent the rank a signal. If ruedarun then finds out why, that reason is the cause, and not this
    /// end.
    bool by_launcher = false;
    std::string host{};  ///< the host on which the rank ran; empty for this host
    bool lost = false;   ///< whether the connection to the supervisor ended before the supervisor had reported the
                         ///< rank's end
    /// If not empty, the rank reported this reason for an abort of the job before it ended. Then the end of this rank
    /// is not the cause, whatever its status is.
    std::string abort_reason{};
    /// For a killed rank: how many processes the kernel killed because memory ran out, while the rank ran.
    OomKills oom_kills{};
    base::StepSpan steps{};  ///< the training steps that the rank counted
    /// Whether the rank ended with exit status 0, and other ranks report that the job was aborted because of this.
    bool left_early = false;
};

/// Makes a RankEnd for a program that was never started.
[[nodiscard]] RankEnd not_started(int rank, std::string error);
/// The same if the system refused to run `program`.
[[nodiscard]] RankEnd not_started(int rank, const std::string& program, int error_number);

[[nodiscard]] bool ended_well(const RankEnd& end);

/// The exit status of the rank. For a killed process it is 128 + the signal's number, as in a shell.
[[nodiscard]] int exit_status_of(const RankEnd& end);

/// The C library's English name of a signal, for example "Killed".
[[nodiscard]] std::string signal_text(int number);

/// Describes how a rank ended, for example "rank 1 (pid 4711) was killed by signal 9 (Killed)", and adds what is known
/// about the reason.
[[nodiscard]] std::string describe(const RankEnd& end);

/// Finds one cause and one exit status from the ends of all ranks. The first failure counts, because later failures are
/// mostly its consequences.
class JobOutcome {
public:
    /// Adds ends that ruedarun noticed at the same moment. Among these, a killed rank counts as the first: other ranks
    /// end with an error because a rank was killed, never the other way round.
    void add(const std::vector<RankEnd>& together);
    /// Whether the cause is still unknown: a rank has failed, but only because mpirun sent a signal, or because the job
    /// had been aborted before.
    [[nodiscard]] bool is_unsettled() const { return !cause_ && echo_; }
    /// Whether all failed ranks reported a reason for an abort. In this case, no better cause can come once all ranks
    /// have ended.
    [[nodiscard]] bool has_only_echoes_of_abort() const { return is_unsettled() && !echo_->abort_reason.empty(); }
    /// Call this when no better cause can come. The known failure then becomes the cause. If the reason of the abort
    /// names a rank that ended with exit status 0, the end of that rank becomes the cause.
    void settle();
    /// Call this when the user ends the job by this signal. The signal is the cause, except if a rank failed before.
    void interrupt(int signal_number);

    [[nodiscard]] const std::optional<RankEnd>& cause() const { return cause_; }
    [[nodiscard]] int exit_status() const;
    /// Whether a rank failed by itself, for a reason other than wrong arguments (exit status 2) or a program that could
    /// not be run (126, 127).
    [[nodiscard]] bool is_worth_another_try() const;

private:
    std::optional<RankEnd> cause_;
    std::optional<RankEnd> echo_;
    std::vector<RankEnd> ended_well_;
    int interrupted_by_ = 0;
};

}  // namespace rueda::launcher
