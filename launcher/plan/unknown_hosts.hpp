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

/// Checks that the hosts that the user named exist. A host counts as unknown if this host finds no address for the
/// name, and if ssh's configuration (`ssh -G`) has neither a HostName with an address nor a proxy for it. The function
/// fails with InvalidArgument for the first unknown host. It does not check names from a scheduler, or jobs whose
/// mpirun does not use plain ssh; in these cases the result contains a line for the user.
[[nodiscard]] Result<std::vector<std::string>> look_for_unknown_hosts(const LaunchPlan& plan, const Options& options,
                                                                      const Environment& environment);

/// Whether a file of MPI parameters (lines NAME = VALUE, comments after #) makes Open MPI connect to hosts in another
/// way than by plain ssh.
[[nodiscard]] bool parameters_name_agent(std::string_view text);

/// Facts about a host from the output of `ssh -G`.
struct SshHost {
    std::string address;     ///< the HostName; empty if there is none
    bool has_proxy = false;  ///< whether there is a ProxyJump or ProxyCommand, which then looks up the name
};
[[nodiscard]] SshHost read_ssh_configuration(std::string_view text);

}  // namespace rueda::launcher
