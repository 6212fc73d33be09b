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
    std::optional<std::vector<Host>> hosts;  ///< empty: the run has failed, so the previous hosts stay
    std::vector<std::string> notes;          ///< lines for the user; each text is reported once
};

/// Reads the output of the script: lines such as `localhost:4`. A host without a number of slots is left out with a
/// note, unless the plan has a number for all hosts. This function is pure.
[[nodiscard]] Discovered read_discovered_hosts(const std::string& text, const ElasticPlan& plan);

/// Runs the script of --host-discovery-script once per second, without ever waiting for it. Threads: only one thread
/// may use an object.
class Discovery {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    /// The time between two runs, which horovodrun has too.
    static constexpr std::chrono::milliseconds kInterval{1000};
    /// A run that takes longer is killed, and counts as failed.
    static constexpr std::chrono::seconds kLongestRun{60};

    Discovery(const ElasticPlan& plan, Environment environment, const sigset_t& signal_mask)
        : plan_(plan), environment_(std::move(environment)), signal_mask_(signal_mask) {}
    Discovery(const Discovery&) = delete;
    Discovery& operator=(const Discovery&) = delete;

    void add_to(base::PollSet& set);
    /// Starts the next run if it is due, and kills one that takes too long. Returns notes for the user.
    [[nodiscard]] std::vector<std::string> advance(TimePoint now);
    /// Call this when the child `pid` has ended. Returns the result of the run if the child was the script.
    [[nodiscard]] std::optional<Discovered> ended(pid_t pid, int wait_status, TimePoint now);
    /// Ends a run, and starts no more.
    void stop();

private:
    void read_some();

    const ElasticPlan& plan_;
    const Environment environment_;
    const sigset_t signal_mask_;
    base::UniqueFd output_;
    std::string text_;
    pid_t pid_ = 0;   ///< 0: no run
    TimePoint next_;  ///< when the next run is due; at first at once
    bool stopped_ = false;
};

}  // namespace rueda::launcher
