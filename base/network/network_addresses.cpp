// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/network/network_addresses.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>

namespace rueda::base {

namespace {

std::optional<NetworkAddress> address_of(const ifaddrs& entry) {
    if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0) {
        return std::nullopt;
    }
    NetworkAddress found;
    found.interface = entry.ifa_name;
    found.is_loopback = (entry.ifa_flags & IFF_LOOPBACK) != 0;
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (entry.ifa_addr->sa_family == AF_INET) {
        sockaddr_in address{};
        std::memcpy(&address, entry.ifa_addr, sizeof address);
        ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
    } else if (entry.ifa_addr->sa_family == AF_INET6) {
        sockaddr_in6 address{};
        std::memcpy(&address, entry.ifa_addr, sizeof address);
        found.is_ipv6 = true;
        found.is_link_local = IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr);
        ::inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
    } else {
        return std::nullopt;
    }
    found.address = text.data();
    return found;
}

}  // namespace

std::vector<NetworkAddress> network_addresses() {
    ifaddrs* first = nullptr;
    if (::getifaddrs(&first) != 0) {
        return {};
    }
    const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(first, ::freeifaddrs);
    std::vector<NetworkAddress> addresses;
    for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
        if (std::optional<NetworkAddress> address = address_of(*entry)) {
            addresses.push_back(std::move(*address));
        }
    }
    return addresses;
}

}  // namespace rueda::base
