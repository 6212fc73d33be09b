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

/// The value of RankEnd::rank for mpirun itself.
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
    std::string start_error;  ///< not empty: the program never ran
    /// mpirun sent the rank a signal. If ruedarun learns why, that is the cause, and not this end.
    bool by_launcher = false;
    std::string host{};  ///< the host on which it ran; empty: this host
    bool lost = false;   ///< the connection to its supervisor ended before the supervisor reported the end
    /// If not empty, the rank gave this reason for an abort of the job before it ended. Then its own end is not the
    /// cause, however it ended.
    std::string abort_reason{};
    /// For a killed rank: the processes that the kernel killed because memory ran out while the rank ran.
    OomKills oom_kills{};
    base::StepSpan steps{};  ///< the training steps that it counted
    /// It ended with exit status 0, and other ranks say that the job was aborted because of that.
    bool left_early = false;
};

/// A RankEnd for a program that never ran.
[[nodiscard]] RankEnd not_started(int rank, std::string error);
/// The same if the system refused to run `program`.
[[nodiscard]] RankEnd not_started(int rank, const std::string& program, int error_number);

[[nodiscard]] bool ended_well(const RankEnd& end);

/// 128 + the signal's number for a killed process, as in a shell.
[[nodiscard]] int exit_status_of(const RankEnd& end);

/// The C library's English name of a signal: "Killed".
[[nodiscard]] std::string signal_text(int number);

/// "rank 1 (pid 4711) was killed by signal 9 (Killed)", and what is known about the reason.
[[nodiscard]] std::string describe(const RankEnd& end);

/// Reduces the ends of all ranks to one cause and one exit status. The first failure counts, because later failures are
/// mostly its consequences.
class JobOutcome {
public:
    /// Takes ends that were seen at the same moment. Among those a killed rank comes first: survivors end with an error
    /// because a rank was killed, never the other way round.
    void add(const std::vector<RankEnd>& together);
    /// A rank has failed, but so far only because mpirun sent a signal, or because the job had been aborted.
    [[nodiscard]] bool is_unsettled() const { return !cause_ && echo_; }
    /// All failed ranks gave a reason for an abort. Once all ranks have ended, no better cause will come.
    [[nodiscard]] bool has_only_echoes_of_abort() const { return is_unsettled() && !echo_->abort_reason.empty(); }
    /// No better cause will come, so the failure that is known becomes the cause. If the reason of an abort is a rank
    /// that ended with exit status 0, that rank becomes the cause.
    void settle();
    /// The user ended the job by this signal. It is the cause, unless a rank failed before.
    void interrupt(int signal_number);

    [[nodiscard]] const std::optional<RankEnd>& cause() const { return cause_; }
    [[nodiscard]] int exit_status() const;
    /// Whether a rank failed by itself, but not because it was called wrongly (exit status 2) or could not be run (126,
    /// 127).
    [[nodiscard]] bool is_worth_another_try() const;

private:
    std::optional<RankEnd> cause_;
    std::optional<RankEnd> echo_;
    std::vector<RankEnd> ended_well_;
    int interrupted_by_ = 0;
};

}  // namespace rueda::launcher
