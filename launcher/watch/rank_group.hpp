// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/network/poll_set.hpp"
#include "base/status.hpp"
#include "launcher/options/variables.hpp"
#include "launcher/output/job_output.hpp"
#include "launcher/watch/rank_end.hpp"
#include "launcher/watch/rank_notifications.hpp"

namespace rueda::launcher {

/// All ranks of a job, which ruedarun or mpirun has started. Threads: only one thread may use an object.
class RankGroup {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    virtual ~RankGroup() = default;

    /// Starts all ranks. If this fails, some ranks may be running; the caller ends them by signal_ranks(SIGKILL).
    [[nodiscard]] virtual Status start(JobOutput& output) = 0;
    virtual void add_to(base::PollSet& set) = 0;
    /// Call this when a child of this process has ended, before its exit status is collected. Until it is collected, no
    /// other process or process group can get the child's number. `is_well` says whether the exit status is 0. The
    /// child need not belong to the group.
    virtual void child_ends(pid_t /*pid*/, bool /*is_well*/) {}
    /// Call this when the exit status of a child was collected. The child need not belong to the group.
    virtual void child_ended(pid_t pid, int wait_status) = 0;
    /// Sends the signal to all ranks that have not ended.
    virtual void signal_ranks(int signal_number) = 0;
    /// Sends a notification to all ranks that have not ended. Ranks that start later get all notifications in
    /// context.notifications.
    virtual void notify_ranks(const RankNotifications::Item& item) = 0;
    /// Call this when a rank has failed. From then on, if a host does not answer, the group gives up on it after a
    /// shorter time than before. Further calls have no effect.
    virtual void watch_closely() = 0;
    /// Returns the ends of ranks that were noticed since the last call of this function.
    [[nodiscard]] virtual std::vector<RankEnd> take_ends() = 0;
    /// The ranks that have not ended.
    [[nodiscard]] virtual std::vector<std::int32_t> running() const = 0;
    /// Whether ranks may still be started. This may be true although no rank runs now.
    [[nodiscard]] virtual bool may_start_ranks() const { return false; }
    /// Whether the program of at least one rank is known to have started.
    [[nodiscard]] virtual bool has_started() const = 0;
    /// Stops waiting for ranks. Call this when all ranks have ended, or when even SIGKILL has not ended them.
    virtual void release(TimePoint now) = 0;
    virtual void advance(TimePoint now) = 0;
    /// Whether all processes of the group have ended. Call this after release().
    [[nodiscard]] virtual bool is_gone() const = 0;
};

/// The values that every kind of RankGroup needs to start ranks.
struct StartContext {
    Environment environment;  ///< ruedarun's own environment, unchanged
    std::string program_file;
    sigset_t signal_mask{};
    const RankNotifications* notifications = nullptr;  ///< must outlive the group
    base::FileReader read = base::read_small_file;
};

}  // namespace rueda::launcher
