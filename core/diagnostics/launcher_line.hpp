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
#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::core {

/// The state of a rank at the time when it learns that another rank has ended.
enum class Standing : std::uint8_t {
    joining,        ///< the rank is in init and waits for the other ranks
    running,        ///< the rank has not announced its shutdown
    shutting_down,  ///< the rank has announced its shutdown; it serves the other ranks until all ranks have announced
                    ///< their shutdown
    closed,         ///< all ranks have announced their shutdown
};

struct HeardNotification {
    base::LauncherNotification notification;
    std::int64_t heard_ns = 0;  ///< CLOCK_MONOTONIC
};

/// Searches the notifications for the end of another rank, if this rank's job must end because of it. `standing` is the
/// state of this rank. Returns the first such notification; nullptr if there is none. This function is pure.
///
/// Before this rank has announced its own shutdown, any end of another rank is a failure, even with exit status 0,
/// because all ranks must shut down together. Afterwards an end with exit status 0 is not a failure. An end with any
/// other status is a failure only if the shutdown does not complete in time, because the other rank may have left the
/// job before it failed.
[[nodiscard]] const base::LauncherNotification* cause_among(std::span<const HeardNotification> heard, Standing standing,
                                                            std::int64_t now_ns);
/// Returns the text of the error for a rank in the state `standing`.
[[nodiscard]] std::string describe_cause(const base::LauncherNotification& notification,
                                         Standing standing = Standing::running);

/// Receives the launcher's notifications (docs/design/failure.md) over a socket that ruedarun or its supervisor opened,
/// and that this process inherited. If there is no launcher, every function returns at once.
///
/// This object belongs to the process and outlives the process's Runtimes: a notification stays valid for the next
/// Runtime. A forked child also has the descriptor. The child must not read from the descriptor, because it would take
/// messages away from its parent.
///
/// Threads: any. The mutex is held for a few system calls that do not block, and never during a wait.
class LauncherLine {
public:
    /// If this rank notices a failure without the launcher, it waits this long for the launcher's notification.
    /// ruedarun learns within a millisecond that a process on the same host has ended. It learns by one message that a
    /// process on another host has ended. In measurements with more runnable threads than cores, the notification took
    /// longer than 100 ms for about one of thirty deaths.
    static constexpr std::chrono::milliseconds kMoment{200};

    [[nodiscard]] static std::unique_ptr<LauncherLine> open(const base::EnvironmentLookup& environment);
    /// For tests: uses a socket that is already open. If the socket is not open, there is no launcher.
    LauncherLine(base::UniqueFd socket, std::int32_t rank, std::int32_t ranks);

    /// One line for the user if the environment variable names a socket of a launcher, but this socket cannot be used.
    /// Otherwise "".
    [[nodiscard]] const std::string& notice() const { return notice_; }
    /// Whether there is a launcher whose notifications can arrive.
    [[nodiscard]] bool is_open() {
        const std::lock_guard lock(mutex_);
        return socket_.is_open();
    }
    /// Whether the launcher gave this process the number `rank`, and started `size` ranks. If so, the launcher's
    /// notifications are about the job with these numbers.
    [[nodiscard]] bool is_about(int rank, int size) {
        const std::lock_guard lock(mutex_);
        return rank_ == rank && ranks_ == size;
    }

    /// Whether the launcher runs an elastic job (docs/design/0028-elastic-jobs.md). In such a job, the launcher gives
    /// this process a place (a rank) in a new generation whenever the process has left the previous one.
    [[nodiscard]] bool is_elastic() {
        const std::lock_guard lock(mutex_);
        return is_elastic_ && socket_.is_open();
    }
    /// Tells the launcher that this process has no job, and waits until the launcher gives it a place in the next
    /// generation. From then on all notifications are about this generation, and earlier ones are forgotten. There is
    /// no time limit here: the launcher has one. Fails with Aborted if the launcher ends the job, or has itself ended.
    [[nodiscard]] Result<base::LauncherPlace> wait_for_place();
    /// Returns how the slots of the elastic job have changed since the last call in this generation, as bits of
    /// LauncherNotification::SlotChange.
    [[nodiscard]] std::int32_t take_slot_changes();

    /// Call this if the job consists of only some of the launched ranks. `launch_ranks[r]` is the launch's number of
    /// the job's rank r, or −1 if the launcher does not know this rank. If `launch_ranks` is empty, the job consists of
    /// all launched ranks in their order. Notifications about other ranks are ignored.
    void set_members(std::vector<int> launch_ranks);

    /// Returns the reason if the end of another rank must also end the job of this rank; otherwise nothing. `standing`
    /// is a function that returns the state of this rank. This function is called only after the notifications were
    /// read, because the state must not be older than the notifications. For example, another rank may have ended
    /// because of what this rank has just done.
    template <class Ask>
    [[nodiscard]] std::optional<std::string> cause(Ask&& standing, std::int64_t now_ns) {
        const std::lock_guard lock(mutex_);
        read(now_ns);
        if (heard_.empty()) {
            return std::nullopt;
        }
        const Standing own = standing();
        const base::LauncherNotification* const notification = cause_among(heard_of_members(), own, now_ns);
        return notification != nullptr ? std::optional(of_launch(describe_cause(*notification, own))) : std::nullopt;
    }
    /// If a launched rank has ended, and MPI_Init would therefore wait for ever, returns a text about this end.
    /// MPI_Init waits for every launched rank, even for ranks that will not be in the job.
    [[nodiscard]] std::optional<std::string> cause_in_mpi_init(std::int64_t now_ns);
    /// Returns why the given rank of the job has died. Waits for the launcher's notification for a short time. The text
    /// depends on the notifications:
    /// - If the launcher reported the failure of another rank before, the text is about that rank, because its failure
    ///   is the cause. For example, MPI can end a process whose connection to another host breaks.
    /// - If the launcher reported the end of the given rank, the text contains this notification and `end_reason`, the
    ///   reason that the dead rank itself gave ("" if it gave none).
    /// - If there is no notification, the text is `seen`, which is what this rank saw of the death.
    [[nodiscard]] std::string cause_of_death(int rank, const std::string& seen, const std::string& end_reason);
    /// Returns the launcher's notification that some rank has failed. Waits for it in the same way as cause_of_death().
    [[nodiscard]] std::optional<std::string> notification_of_failure();

    /// Tells the launcher why this rank's program saw an abort, so that the launcher does not report the end of this
    /// process as the cause. If this rank sends several messages, the launcher uses the last one. If a new message only
    /// repeats the same reason for another tensor, it is not sent. After a few messages, no further message is sent.
    void report_abort(std::string_view reason);
    /// Call this if this rank itself ends the job. The launcher then takes this rank's end as the cause, because
    /// report_abort() sends nothing any more.
    void become_the_cause();

    /// Tells the launcher which step this program has reached, so that the launcher knows the step even if the process
    /// is killed. Makes no system call.
    void begin_step(std::int64_t step);

private:
    void read(std::int64_t now_ns);
    [[nodiscard]] Status take(const base::LauncherNotification& notification, std::int64_t now_ns);
    void begin_generation(base::LauncherPlace place);
    [[nodiscard]] std::optional<Result<base::LauncherPlace>> take_place();
    [[nodiscard]] ssize_t receive(std::span<char> buffer);
    [[nodiscard]] bool is_member(int launch_rank) const;
    [[nodiscard]] bool is_about_rank(const base::LauncherNotification& notification, int rank) const;
    [[nodiscard]] std::span<const HeardNotification> heard_of_members();
    [[nodiscard]] std::string of_launch(const std::string& text) const;
    template <class Wanted>
    std::optional<std::string> wait_for(Wanted&& wanted);

    std::mutex mutex_;
    base::UniqueFd socket_;
    std::vector<HeardNotification> heard_;
    // The notifications in `heard_` that are about members of the job. Each call that uses this list fills it first.
    std::vector<HeardNotification> members_heard_;
    std::vector<int> members_;
    std::int32_t rank_ = 0;
    std::int32_t ranks_ = 0;
    std::string notice_;
    std::vector<std::string> reported_;
    bool is_the_cause_ = false;
    base::StepPage steps_;
    bool is_elastic_ = false;
    std::int32_t slot_changes_ = 0;
    std::optional<base::LauncherPlace> place_;  ///< a place that wait_for_place() has not returned yet
    /// why the launcher gives this process no place (no rank) in further generations
    std::optional<std::string> dismissal_;
};

}  // namespace rueda::core
