// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "launcher/start/rank_starter.hpp"

namespace rueda::launcher {

/// Starts the agents of the hosts of a job without MPI (supervisor/host_agent.hpp): on this host directly, on other
/// hosts through ssh. Each agent gets an AgentOrder over a descriptor. Threads: only one thread may use an object.
class HostAgents final : public RankStarter {
public:
    [[nodiscard]] Status start(const LaunchPlan& plan, const StartContext& context,
                               const std::vector<EnvironmentChange>& more) override;
    void add_to(base::PollSet& set) override;
    [[nodiscard]] std::optional<End> ended(pid_t pid, int wait_status) override;
    void signal(int signal_number) const override;
    [[nodiscard]] bool is_gone() const override;

private:
    /// The process on this host that leads to the agent: the agent itself, or an ssh.
    struct Process {
        HostPlan host;
        pid_t pid = 0;          ///< 0: it was not started, or its exit status was collected
        base::UniqueFd errors;  ///< the reading end of a pipe, with the process's output
    };
    [[nodiscard]] Status start_one(const LaunchPlan& plan, const StartContext& context,
                                   const std::vector<EnvironmentChange>& more, const HostPlan& host);

    std::vector<Process> processes_;
};

}  // namespace rueda::launcher
