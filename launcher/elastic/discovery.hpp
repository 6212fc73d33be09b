// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/network/poll_set.hpp"
#include "base/unique_fd.hpp"
#include "launcher/hosts/hosts.hpp"
#include "launcher/options/variables.hpp"
#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

/// The result of one run of the script that --host-discovery-script names.
struct Discovered {
    std::optional<std::vector<Host>> hosts;  ///< empty if the script has failed; the job then keeps the previous hosts
    std::vector<std::string> notes;          ///< lines for the user; each text is reported once
};

/// Reads the output of the script: lines such as `localhost:4`. If a line has no number of slots, the host gets
/// ElasticPlan::slots_per_host slots. If this number is 0, the host is left out, and a note says so. Pure function.
[[nodiscard]] Discovered read_discovered_hosts(const std::string& text, const ElasticPlan& plan);

/// Runs the script of --host-discovery-script once per second, and never waits until the script has ended. Threads:
/// only one thread may use an object.
class Discovery {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    /// The time between two runs of the script. horovodrun uses the same time.
    static constexpr std::chrono::milliseconds kInterval{1000};
    /// If the script runs for longer than this, it is killed, and this run counts as failed.
    static constexpr std::chrono::seconds kLongestRun{60};

    Discovery(const ElasticPlan& plan, Environment environment, const sigset_t& signal_mask)
        : plan_(plan), environment_(std::move(environment)), signal_mask_(signal_mask) {}
    Discovery(const Discovery&) = delete;
    Discovery& operator=(const Discovery&) = delete;

    void add_to(base::PollSet& set);
    /// Starts the script if its next run is due. Kills a run that takes too long. Returns notes for the user.
    [[nodiscard]] std::vector<std::string> advance(TimePoint now);
    /// Call this when the child `pid` has ended. Returns the result of the run if the child was the script.
    [[nodiscard]] std::optional<Discovered> ended(pid_t pid, int wait_status, TimePoint now);
    /// Ends a run of the script, and starts no further runs.
    void stop();

private:
    void read_some();

    const ElasticPlan& plan_;
    const Environment environment_;
    const sigset_t signal_mask_;
    base::UniqueFd output_;
    std::string text_;
    pid_t pid_ = 0;   ///< the running script; 0 if none runs
    TimePoint next_;  ///< when the next run of the script is due; the first run is due at once
    bool stopped_ = false;
};

}  // namespace rueda::launcher
