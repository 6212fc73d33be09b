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

/// A line that is the same for two processes exactly if they run on one host in Rueda's sense. A name is not enough,
/// because cloned machines may have the same name. The line has the name (RUEDA_HOSTNAME, else uname's), the kernel's
/// boot id, and the namespaces of network, processes and shared memory.
[[nodiscard]] std::string host_key(const Environment& environment);

struct NetworkAddress {
    std::string interface;
    std::string address;  ///< numeric, without the scope of a link-local address
    bool is_ipv6 = false;
    bool is_loopback = false;
    bool is_link_local = false;
};

/// The addresses of all interfaces that are up.
[[nodiscard]] std::vector<NetworkAddress> network_addresses();

/// Names and addresses that mean this host: its own name, in full and up to the first dot, "localhost", and the
/// addresses of its interfaces.
[[nodiscard]] std::set<std::string> names_of_this_host();

/// Why this host has no address for the name; "" if it has one. May ask a name server and wait for the answer.
[[nodiscard]] std::string why_unknown(const std::string& host);

}  // namespace rueda::launcher
