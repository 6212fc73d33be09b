// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/launcher_notification.hpp"
#include "base/settings/environment.hpp"
#include "base/shared_memory/step_page.hpp"
#include "base/unique_fd.hpp"

namespace rueda::core {

/// What a rank is doing when it learns that another rank has ended.
enum class Standing : std::uint8_t {
    joining,        ///< it is in init and waits for the others
    running,        ///< it has not announced its shutdown
    shutting_down,  ///< it has announced its shutdown, and serves the others until all have
    closed,         ///< all ranks have announced their shutdown
};

struct HeardWord {
    base::LauncherNotification word;
    std::int64_t heard_ns = 0;  ///< CLOCK_MONOTONIC
};

/// Finds the end of another rank that ends the job of a rank with this standing, if there is one: the first one that
/// arrived. Pure.
///
/// A shutdown is collective. So before this rank has announced its own shutdown, no rank can have left in order,
/// whatever its exit status. Afterwards an exit status of 0 is no cause. Any other status is a cause only if the
/// shutdown does not complete, because a rank may fail after it has left.
[[nodiscard]] const base::LauncherNotification* cause_among(std::span<const HeardWord> heard, Standing standing,
                                                            std::int64_t now_ns);
/// The text of the error that a rank with this standing gets.
[[nodiscard]] std::string describe_cause(const base::LauncherNotification& word, Standing standing = Standing::running);

/// Receives the launcher's notifications (docs/design/failure.md) over a socket that ruedarun, or its supervisor, has
/// left open in this process. Without a launcher every function returns at once.
///
/// It belongs to the process and outlives the process's Runtimes: a notification stays valid for the next Runtime. A
/// forked child also has the descriptor and must not read from it, because it would take messages away from its parent.
///
/// Threads: any. The mutex is held for a few system calls that do not block, and never during a wait.
class LauncherLine {
public:
    /// How long a failure that was seen otherwise waits for the launcher's notification about it. ruedarun learns of an
    /// end on the same host within a millisecond, and of one on another host within the time of a message. But if more
    /// threads want to run than there are cores, 100 ms were sometimes too short (once in some thirty deaths).
    static constexpr std::chrono::milliseconds kMoment{200};

    [[nodiscard]] static std::unique_ptr<LauncherLine> open(const base::EnvironmentLookup& environment);
    /// Uses an open socket, for tests. A socket that is not open means: no launcher.
    LauncherLine(base::UniqueFd socket, std::int32_t rank, std::int32_t ranks);

    /// One line for the user if the variable named a launcher whose socket cannot be used; "" otherwise.
    [[nodiscard]] const std::string& notice() const { return notice_; }
    /// Whether there is a launcher whose notifications can arrive.
    [[nodiscard]] bool is_open() {
        const std::lock_guard lock(mutex_);
        return socket_.is_open();
    }
    /// Whether the launcher's rank and number of ranks are those of this process, so that the notifications are about
    /// its job.
    [[nodiscard]] bool is_about(int rank, int size) const { return rank_ == rank && ranks_ == size; }

    /// For a job that consists of some of the launched ranks: gives, by rank of the job, the ranks of the launch (−1:
    /// ranks of which the launcher knows nothing). Empty means all launched ranks in their order. Notifications about
    /// other ranks are ignored.
    void set_members(std::vector<int> launch_ranks);

    /// The end of another rank that ends the job of a rank with the standing that `standing` returns. `standing` is
    /// called after the messages were read, because a notification may be the consequence of what this rank has just
    /// done.
    template <class Ask>
    [[nodiscard]] std::optional<std::string> cause(Ask&& standing, std::int64_t now_ns) {
        const std::lock_guard lock(mutex_);
        read(now_ns);
        if (heard_.empty()) {
            return std::nullopt;
        }
        const Standing own = standing();
        const base::LauncherNotification* const word = cause_among(heard_of_members(), own, now_ns);
        return word != nullptr ? std::optional(of_launch(describe_cause(*word, own))) : std::nullopt;
    }
    /// The end of a rank for which MPI_Init would wait forever. MPI_Init waits for every launched rank, even if that
    /// rank will not be in the job.
    [[nodiscard]] std::optional<std::string> cause_in_mpi_init(std::int64_t now_ns);
    /// How the given rank of the job has ended. Waits a moment for the notification.
    [[nodiscard]] std::optional<std::string> word_about(int rank);
    /// How any rank has failed. Waits in the same way.
    [[nodiscard]] std::optional<std::string> word_of_failure();

    /// Tells the launcher the reason of the abort that this program gets, so that the end of this process is not taken
    /// for the cause. The last message counts. A message that only repeats the reason for another tensor is not sent,
    /// and after a few messages no more are sent.
    void report_abort(std::string_view reason);
    /// From now on report_abort() sends nothing: this rank ends the job, so its end is the cause.
    void become_the_cause();

    /// Tells the launcher how far this program is, so that it is known after any end. Makes no system call.
    void begin_step(std::int64_t step);

private:
    void read(std::int64_t now_ns);
    [[nodiscard]] ssize_t receive(std::span<char> buffer);
    [[nodiscard]] bool is_member(int launch_rank) const;
    [[nodiscard]] std::span<const HeardWord> heard_of_members();
    [[nodiscard]] std::string of_launch(const std::string& text) const;
    template <class Wanted>
    std::optional<std::string> wait_for(Wanted&& wanted);

    std::mutex mutex_;
    base::UniqueFd socket_;
    std::vector<HeardWord> heard_;
    std::vector<HeardWord> members_heard_;  // the notifications in heard_ about members, as of the last request
    std::vector<int> members_;
    std::int32_t rank_ = 0;
    std::int32_t ranks_ = 0;
    std::string notice_;
    std::vector<std::string> reported_;
    bool is_the_cause_ = false;
    base::StepPage steps_;
};

}  // namespace rueda::core
