// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <set>
#include <string>
#include <vector>

#include "launcher/options/variables.hpp"

namespace rueda::launcher {

/// The name of this host, from uname().
[[nodiscard]] std::string host_name();

/// Returns a text that is the same for two processes if, and only if, Rueda treats them as running on the same host.
/// The hostname alone is not enough, because cloned machines may have the same name. The text contains the name
/// (RUEDA_HOSTNAME, or else the name from uname()), the kernel's boot id, and the namespaces of network, processes and
/// shared memory.
[[nodiscard]] std::string host_key(const Environment& environment);

struct NetworkAddress {
    std::string interface;
    std::string address;  ///< the address in numeric form, without the scope of a link-local address
    bool is_ipv6 = false;
    bool is_loopback = false;
    bool is_link_local = false;
};

/// Returns the addresses of all network interfaces that are up.
[[nodiscard]] std::vector<NetworkAddress> network_addresses();

/// Returns the names and addresses of this host: its complete name, its name up to the first dot, "localhost", and the
/// addresses of its network interfaces.
[[nodiscard]] std::set<std::string> names_of_this_host();

/// Returns the reason why this host cannot find an address for the name `host`, or an empty text if it finds one. The
/// function may wait for a name server.
[[nodiscard]] std::string why_unknown(const std::string& host);

}  // namespace rueda::launcher
