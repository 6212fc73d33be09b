// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/hosts/network.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include <cstdint>
#include <fstream>

#include "base/network/network_addresses.hpp"
#include "base/text.hpp"

namespace rueda::launcher {

namespace {

/// The maximum length of the setting RUEDA_HOSTNAME.
constexpr std::size_t kLongestHostName = 253;

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
    for (const base::NetworkAddress& address : base::network_addresses()) {
        names.insert(address.address);
    }
    names.erase("");
    return names;
}

}  // namespace rueda::launcher
