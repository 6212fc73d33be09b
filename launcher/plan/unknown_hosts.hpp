// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "launcher/options/variables.hpp"
#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

/// Looks for the hosts of the plan that the user has named and nobody knows: this host has no address for the name, and
/// ssh's configuration (`ssh -G`) has neither a HostName that has one nor a proxy that would look for it.
/// InvalidArgument names the first of these. What cannot be decided here is left to mpirun, with a line for the user in
/// the result: names that come from a scheduler, and jobs whose hosts mpirun does not reach by plain ssh.
[[nodiscard]] Result<std::vector<std::string>> look_for_unknown_hosts(const LaunchPlan& plan, const Options& options,
                                                                      const Environment& environment);

/// A file of MPI parameters (lines NAME = VALUE, comments after #) tells Open MPI to reach hosts in another way than by
/// plain ssh.
[[nodiscard]] bool parameters_name_agent(std::string_view text);

/// What `ssh -G` says of a host.
struct SshHost {
    std::string address;     ///< HostName; empty: the text says none
    bool has_proxy = false;  ///< ProxyJump or ProxyCommand: the name is looked for elsewhere
};
[[nodiscard]] SshHost read_ssh_configuration(std::string_view text);

}  // namespace rueda::launcher
