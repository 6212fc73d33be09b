// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <string>

namespace rueda::launcher {

/// Runs the agent of a host: `ruedarun --host-agent FD`. In a job on several hosts without MPI, ruedarun starts an
/// agent on each host, directly or through ssh. The agent reads an AgentOrder from the descriptor FD, and starts a
/// supervisor (supervisor.hpp) for each rank of its host. It passes signals on to the supervisors, and ends when all of
/// them have ended. The supervisors report to ruedarun themselves. Returns the exit status. Threads: the process must
/// have only this thread.
[[nodiscard]] int run_host_agent(std::span<const std::string> arguments);

}  // namespace rueda::launcher
