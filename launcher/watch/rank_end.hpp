// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/shared_memory/step_page.hpp"
#include "launcher/processes/oom_kills.hpp"

namespace rueda::launcher {

/// Stands in RankEnd::rank for mpirun itself.
inline constexpr int kLauncherRank = -1;

/// A shell's exit status for a program that could not be started.
inline constexpr int kNotStartedStatus = 127;

/// How a process ended, as waitpid() tells it.
struct RankEnd {
    int rank = 0;
    pid_t pid = 0;
    int wait_status = 0;
    std::string start_error;  ///< not empty: the program never ran
    /// mpirun's doing: it sent the rank a signal, or its supervisor was killed. What moved mpirun is the cause, if we
    /// learn of it.
    bool by_launcher = false;
    std::string host{};  ///< where it ran; empty: on this one
    bool lost = false;   ///< the connection to another host ended before anybody said how the rank did
    /// Not empty: before it ended, the rank had been told that the job was aborted, and this is why. It is no cause
    /// itself then, however it ended.
    std::string abort_reason{};
    /// Of a killed rank: what the kernel ended for want of memory while it ran.
    OomKills oom_kills{};
    base::StepSpan steps{};  ///< the training steps that it has told of
    /// It ended with exit status 0, and others say that the job was aborted because of that.
    bool left_early = false;
};

/// A RankEnd for a program that never ran.
[[nodiscard]] RankEnd not_started(int rank, std::string error);
/// The same where the system refused to run `program`.
[[nodiscard]] RankEnd not_started(int rank, const std::string& program, int error_number);

/// As a supervisor has told it: a number below 1 says nothing.
[[nodiscard]] OomKills told_oom_kills(int processes, std::string_view counted_in);

/// As a supervisor has told it, "3 17": unknown where that is something else.
[[nodiscard]] base::StepSpan told_steps(std::string_view text);

[[nodiscard]] bool ended_well(const RankEnd& end);

/// 128 + signal for a killed process, as shells do it.
[[nodiscard]] int exit_status_of(const RankEnd& end);

/// What a signal stands for, in the words of the C library and whatever the locale: "Killed".
[[nodiscard]] std::string signal_text(int number);

/// "rank 1 (pid 4711) was killed by signal 9 (Killed)", with what the kernel says of it.
[[nodiscard]] std::string describe(const RankEnd& end);

/// Folds the ends of all ranks into one cause and one exit status: the first failure counts, for what fails after it
/// is mostly its echo.
class JobOutcome {
public:
    /// Ends that were seen at the same moment. Among those a killed rank comes first: survivors end with an error
    /// because a rank was killed, never the other way round.
    void add(const std::vector<RankEnd>& together);
    /// A rank failed, but so far only by mpirun's doing, or because the job had been aborted.
    [[nodiscard]] bool is_unsettled() const { return !cause_ && echo_; }
    /// All that failed were told that the job had been aborted. Once all ranks have ended nothing better will come.
    [[nodiscard]] bool has_only_echoes_of_abort() const { return is_unsettled() && !echo_->abort_reason.empty(); }
    /// Nothing better has come: what there is is the cause. For an abort that is why it was. Where a rank that ended
    /// with exit status 0 is the reason, that rank is the cause.
    void settle();
    /// The user ended the job by this signal; it is then the cause, unless a rank had failed before.
    void interrupt(int signal_number);

    [[nodiscard]] const std::optional<RankEnd>& cause() const { return cause_; }
    [[nodiscard]] int exit_status() const;
    /// A rank failed of itself, and not because it was called wrongly (exit status 2) or could not be run (126, 127).
    [[nodiscard]] bool is_worth_another_try() const;

private:
    std::optional<RankEnd> cause_;
    std::optional<RankEnd> echo_;
    std::vector<RankEnd> ended_well_;
    int interrupted_by_ = 0;
};

}  // namespace rueda::launcher
