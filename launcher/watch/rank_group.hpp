// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/status.hpp"
#include "launcher/output/job_output.hpp"
#include "launcher/processes/poll_set.hpp"
#include "launcher/watch/rank_end.hpp"
#include "launcher/watch/rank_notifications.hpp"

namespace rueda::launcher {

/// All ranks of a job, however they were started: directly, or under mpirun. Threads: one.
class RankGroup {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    virtual ~RankGroup() = default;

    /// After a failure some ranks may run; signal_ranks(SIGKILL) ends them.
    [[nodiscard]] virtual Status start(JobOutput& output) = 0;
    virtual void add_to(PollSet& set) = 0;
    /// A child of this process was reaped; it may be none of the group's.
    virtual void child_ended(pid_t pid, int wait_status) = 0;
    /// To all ranks that have not ended.
    virtual void signal_ranks(int signal_number) = 0;
    /// Tells the ranks that have not ended how another one has; those that come later find it in context.notifications.
    virtual void tell_ranks(const RankNotifications::Item& item) = 0;
    /// A rank has failed: from now on a host that does not answer is not waited for as long as before. May be called
    /// again, which changes nothing.
    virtual void watch_closely() = 0;
    /// Ends that came since the last call.
    [[nodiscard]] virtual std::vector<RankEnd> take_ends() = 0;
    /// Ranks that have not ended.
    [[nodiscard]] virtual std::vector<std::int32_t> running() const = 0;
    /// A program has run, as far as that is known.
    [[nodiscard]] virtual bool has_started() const = 0;
    /// Waits for the ranks no longer: all have ended, or even SIGKILL did not help.
    virtual void release(TimePoint now) = 0;
    virtual void advance(TimePoint now) = 0;
    /// After release(): nothing of the group runs any more.
    [[nodiscard]] virtual bool is_gone() const = 0;
};

/// What all ways to start ranks need.
struct StartContext {
    std::map<std::string, std::string> environment;  ///< ruedarun's own, unchanged
    std::string program_file;
    sigset_t signal_mask{};
    const RankNotifications* notifications = nullptr;  ///< outlives the group
    base::FileReader read = base::read_small_file;
};

}  // namespace rueda::launcher
