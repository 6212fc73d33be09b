// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/watch/rank_end.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/launcher_notification.hpp"
#include "base/text.hpp"

namespace rueda::launcher {

namespace {

constexpr int kSignalBase = 128;

/// Makes the wait status of a process that exited. (The exit status is in the second byte, see wait(2).)
constexpr int exited(int status) { return status << 8; }

std::string name_of(const RankEnd& end) {
    return end.rank == kLauncherRank ? "mpirun"
           : end.host.empty()        ? fmt::format("rank {}", end.rank)
                                     : fmt::format("rank {} on {}", end.rank, end.host);
}

}  // namespace

RankEnd not_started(int rank, std::string error) {
    return {rank, 0, exited(kNotStartedStatus), std::move(error), false};
}

RankEnd not_started(int rank, const std::string& program, int error_number) {
    // ruedarun has found the program's file before the start. If the system nevertheless reports that a file is
    // missing, the missing file may be the interpreter that the first line of the program names.
    const char* const hint = error_number == ENOENT ? "; it, or the interpreter that it names, is missing there" : "";
    return not_started(rank, fmt::format("{}: {} (errno {}){}", base::quote(program),
                                         std::generic_category().message(error_number), error_number, hint));
}

bool ended_well(const RankEnd& end) { return WIFEXITED(end.wait_status) && WEXITSTATUS(end.wait_status) == 0; }

int exit_status_of(const RankEnd& end) {
    return WIFSIGNALED(end.wait_status) ? kSignalBase + WTERMSIG(end.wait_status) : WEXITSTATUS(end.wait_status);
}

std::string signal_text(int number) {
    // Linux has names for the signals 1 to 31. For these signals, strsignal() returns a constant, so strsignal() is
    // safe in any thread. sigdescr_np() would return the same text, but needs glibc 2.32.
    constexpr int kFirstWithoutName = 32;
    const bool has_name = number > 0 && number < kFirstWithoutName;
    return has_name ? ::strsignal(number) : "of a kind that has no name";  // NOLINT(concurrency-mt-unsafe): see above
}

std::string describe(const RankEnd& end) {
    const std::string name = name_of(end);
    if (!end.start_error.empty()) {
        return fmt::format("{} could not be started: {}", name, end.start_error);
    }
    if (end.lost) {
        return fmt::format("{} (pid {}) is lost: {}its supervisor was killed", name, end.pid,
                           end.host.empty() ? "" : "its host does not answer any more, or ");
    }
    const std::string memory = end.oom_kills.processes == 0 ? "" : ": " + describe(end.oom_kills);
    const std::string after =
        memory + (end.abort_reason.empty() ? "" : ", after the job was aborted: " + end.abort_reason);
    if (WIFSIGNALED(end.wait_status)) {
        const int number = WTERMSIG(end.wait_status);
        return fmt::format("{} (pid {}) was killed by signal {} ({}){}{}", name, end.pid, number, signal_text(number),
                           end.by_launcher ? ", by mpirun or together with its supervisor" : "", after);
    }
    if (end.left_early) {
        return fmt::format("{} (pid {}) ended with exit status 0 without having called rueda::shutdown()", name,
                           end.pid);
    }
    return fmt::format("{} (pid {}) ended with exit status {}{}{}", name, end.pid, WEXITSTATUS(end.wait_status),
                       end.rank == kLauncherRank ? " before the job was over" : "", after);
}

void JobOutcome::add(const std::vector<RankEnd>& together) {
    if (cause_) {
        return;
    }
    for (const RankEnd& end : together) {
        if (end.rank != kLauncherRank && ended_well(end)) {
            ended_well_.push_back(end);
        }
        // mpirun must not exit before its ranks. If mpirun exits earlier, it has failed, even if its exit status is 0.
        const bool failed = !ended_well(end) || end.rank == kLauncherRank;
        const bool better = !cause_ || (WIFSIGNALED(end.wait_status) && !WIFSIGNALED(cause_->wait_status));
        // If the ranks have reported why the job was aborted, a lost connection to a rank is not a better explanation.
        // For example, if a host is cut off, the ranks notice this first, and ruedarun notices it later.
        const bool is_known = end.lost && echo_ && !echo_->abort_reason.empty();
        const bool is_echo = end.by_launcher || !end.abort_reason.empty() || is_known;
        if (failed && is_echo) {
            // Several ranks may have ended only because the job ended. `echo_` keeps one of them. A rank that reported
            // why the job was aborted explains more than a rank that mpirun ended, so it is preferred.
            const bool says_more = echo_ && echo_->abort_reason.empty() && !end.abort_reason.empty();
            echo_ = echo_ && !says_more ? echo_ : end;
        } else if (failed && better) {
            cause_ = end;
        }
    }
}

void JobOutcome::settle() {
    if (cause_ || !echo_) {
        return;
    }
    cause_ = echo_;
    for (const RankEnd& end : ended_well_) {
        // The rank ended with exit status 0, but other ranks were waiting for it. So it has not called shutdown(),
        // which would have waited for all ranks.
        if (echo_->abort_reason.find(fmt::format("{} (pid {})", name_of(end), end.pid)) != std::string::npos) {
            cause_ = end;
            cause_->left_early = true;
            return;
        }
    }
}

void JobOutcome::interrupt(int signal_number) {
    if (!cause_ && interrupted_by_ == 0) {
        interrupted_by_ = signal_number;
    }
}

int JobOutcome::exit_status() const {
    if (!cause_) {
        // no rank failed, so the status is 0, even if the user sent a signal
        return 0;
    }
    if (interrupted_by_ != 0) {
        return kSignalBase + interrupted_by_;
    }
    if (!cause_->left_early && base::is_reason_of_stall(cause_->abort_reason)) {
        return kStalledStatus;
    }
    const int status = exit_status_of(*cause_);
    return status == 0 ? 1 : status;
}

bool JobOutcome::is_worth_another_try() const {
    constexpr int kWrongUse = 2;
    constexpr int kNotExecutable = 126;
    if (!cause_ || interrupted_by_ != 0 || !cause_->start_error.empty()) {
        return false;
    }
    const int status = exit_status_of(*cause_);
    const bool is_pointless = status == kWrongUse || status == kNotExecutable || status == kNotStartedStatus;
    return cause_->rank == kLauncherRank || WIFSIGNALED(cause_->wait_status) || !is_pointless;
}

}  // namespace rueda::launcher
