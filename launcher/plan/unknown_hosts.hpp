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

/// Looks for hosts that the user named but that do not exist: this host has no address for the name, and ssh's
/// configuration (`ssh -G`) has neither a HostName with an address nor a proxy. An InvalidArgument names the first such
/// host. Names from a scheduler, and jobs whose mpirun does not use plain ssh, are left to mpirun; the result then has
/// a line for the user.
[[nodiscard]] Result<std::vector<std::string>> look_for_unknown_hosts(const LaunchPlan& plan, const Options& options,
                                                                      const Environment& environment);

/// Whether a file of MPI parameters (lines NAME = VALUE, comments after #) tells Open MPI to reach hosts in another way
/// than by plain ssh.
[[nodiscard]] bool parameters_name_agent(std::string_view text);

/// What `ssh -G` prints about a host.
struct SshHost {
    std::string address;     ///< the HostName; empty: there is none
    bool has_proxy = false;  ///< it has a ProxyJump or ProxyCommand, which looks up the name
};
[[nodiscard]] SshHost read_ssh_configuration(std::string_view text);

}  // namespace rueda::launcher
