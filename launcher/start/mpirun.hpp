// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <functional>
#include <string_view>
#include <utility>

#include "base/unique_fd.hpp"
#include "launcher/plan/plan.hpp"
#include "launcher/watch/rank_group.hpp"

namespace rueda::launcher {

/// The mpirun of a job, as a child of ruedarun: started, listened to, and ended. Threads: one.
class Mpirun {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    /// From release() to SIGTERM. Open MPI 4 leaves within 0.1 s, or about 1 s after it had to clean up.
    static constexpr std::chrono::milliseconds kLeaves{2000};
    /// The same on several hosts after a rank has failed: told to let survivors live, Open MPI 4 often does not leave
    /// at all then, and ends by SIGKILL only.
    static constexpr std::chrono::milliseconds kLeavesAfterFailure{500};

    /// What it writes to its standard error; its standard output is ruedarun's.
    std::function<void(std::string_view)> on_error_text;

    [[nodiscard]] Status start(const LaunchPlan& plan, const StartContext& context,
                               const std::vector<EnvironmentChange>& more = {});
    void add_to(PollSet& set);
    /// True where it was this child; its last words have been passed on then.
    [[nodiscard]] bool ended(pid_t pid);
    void signal(int signal_number) const;
    /// All ranks have ended: it is to leave by itself, and soon.
    void release(TimePoint now, std::chrono::milliseconds patience = kLeaves);
    [[nodiscard]] bool is_released() const { return released_; }
    void advance(TimePoint now);
    [[nodiscard]] bool is_gone() const { return pid_ == 0; }

private:
    void read_errors();

    base::UniqueFd errors_;
    pid_t pid_ = 0;  ///< 0: not started, or reaped
    bool released_ = false;
    int next_signal_ = SIGTERM;  ///< what an mpirun that does not leave gets next
    TimePoint deadline_;
};

}  // namespace rueda::launcher
