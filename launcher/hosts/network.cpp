// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/hosts/network.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>

#include "base/text.hpp"

namespace rueda::launcher {

namespace {

/// The maximum length of the setting RUEDA_HOSTNAME.
constexpr std::size_t kLongestHostName = 253;

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

std::string host_name() {
    utsname name{};
    return ::uname(&name) == 0 ? name.nodename : "";
}

std::string host_key(const Environment& environment) {
    std::string name = text_of(environment, "RUEDA_HOSTNAME");
    name = name.empty() ? text_of(environment, "HOROVOD_HOSTNAME") : name;
    std::string boot;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    const auto inode_of = [](const char* path) {
        struct stat facts {};
        return ::stat(path, &facts) == 0 ? static_cast<std::uint64_t>(facts.st_ino) : 0;
    };
    return fmt::format("{} {} {} {} {}", name.empty() ? host_name() : base::printable(name, kLongestHostName), boot,
                       inode_of("/proc/self/ns/net"), inode_of("/proc/self/ns/pid"), inode_of("/proc/self/ns/ipc"));
}

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

std::string why_unknown(const std::string& host) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
    if (error != 0) {
        return ::gai_strerror(error);
    }
    ::freeaddrinfo(found);
    return "";
}

std::set<std::string> names_of_this_host() {
    const std::string name = host_name();
    std::set<std::string> names = {"localhost", name, name.substr(0, name.find('.'))};
    for (const NetworkAddress& address : network_addresses()) {
        names.insert(address.address);
    }
    names.erase("");
    return names;
}

}  // namespace rueda::launcher
