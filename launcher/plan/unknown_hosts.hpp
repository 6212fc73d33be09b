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

/// Checks that the hosts that the user named exist. A host is unknown if two conditions hold: this host finds no
/// address for its name, and ssh's configuration (`ssh -G`) contains neither a HostName with an address nor a proxy for
/// it. Fails with InvalidArgument for the first unknown host. Hosts from a scheduler are not checked. If mpirun does
/// not use plain ssh, hosts are not checked either, and the result contains a note for the user.
[[nodiscard]] Result<std::vector<std::string>> look_for_unknown_hosts(const LaunchPlan& plan, const Options& options,
                                                                      const Environment& environment);

/// Whether a file of MPI parameters (lines NAME = VALUE, comments after #) makes Open MPI use another program than ssh
/// to connect to hosts.
[[nodiscard]] bool parameters_name_agent(std::string_view text);

/// Facts about a host from the output of `ssh -G`.
struct SshHost {
    std::string address;     ///< ssh's setting HostName for the host; empty if there is none
    bool has_proxy = false;  ///< whether ssh has a ProxyJump or a ProxyCommand for the host; the proxy then looks up
                             ///< the name
};
[[nodiscard]] SshHost read_ssh_configuration(std::string_view text);

}  // namespace rueda::launcher
