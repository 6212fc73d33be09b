// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <list>
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

    /// Starts the agent of one host while an elastic job runs. The agent starts the ranks that `host` names.
    /// `local_ranks`: the number of ranks among which the host's cores are divided.
    [[nodiscard]] Status start_one(const LaunchPlan& plan, const StartContext& context,
                                   const std::vector<EnvironmentChange>& more, const HostPlan& host, int local_ranks);
    /// Sends a signal to the agent that starts `first_rank`, or to the ssh that leads to this agent.
    void signal_one(int first_rank, int signal_number) const;

private:
    /// A process on this host that leads to an agent: the agent itself, or an ssh. It is removed when it has ended.
    struct Process {
        HostPlan host;
        pid_t pid = 0;
        base::UniqueFd errors;  ///< the reading end of a pipe, with the process's output
    };

    /// The processes are in a list, so that pointers to them stay valid while further agents are started. Callbacks use
    /// such pointers.
    std::list<Process> processes_;
};

}  // namespace rueda::launcher
