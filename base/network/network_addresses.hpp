// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <vector>

namespace rueda::base {

struct NetworkAddress {
    std::string interface;
    std::string address;  ///< the address in numeric form; for a link-local address, without the scope
    bool is_ipv6 = false;
    bool is_loopback = false;
    bool is_link_local = false;
};

/// Returns the addresses of all network interfaces that are up.
[[nodiscard]] std::vector<NetworkAddress> network_addresses();

}  // namespace rueda::base
