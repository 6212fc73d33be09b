// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/connection/own_rendezvous.hpp"

#include <algorithm>
#include <vector>

#include "base/network/endpoint_list.hpp"
#include "base/network/network_addresses.hpp"

namespace rueda::launcher {

std::string rendezvous_of_this_host(std::uint16_t port) {
    std::vector<base::NetworkAddress> addresses = base::network_addresses();
    std::stable_partition(addresses.begin(), addresses.end(),
                          [](const base::NetworkAddress& address) { return !address.is_loopback; });
    std::vector<std::string> endpoints;
    for (const base::NetworkAddress& address : addresses) {
        if (!address.is_link_local && endpoints.size() < base::kMostEndpoints) {
            endpoints.push_back(base::endpoint_text(address.address, address.is_ipv6, port));
        }
    }
    return port == 0 || endpoints.empty() ? "" : base::tcp_rendezvous(endpoints);
}

}  // namespace rueda::launcher
