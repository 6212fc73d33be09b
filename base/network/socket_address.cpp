// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/network/socket_address.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <cstring>

#include "base/numbers.hpp"

namespace rueda::base {

namespace {

template <class Address>
SocketAddress socket_address_of(const Address& address, std::size_t size = sizeof(Address)) {
    SocketAddress result;
    std::memcpy(&result.storage, &address, sizeof address);
    result.size = static_cast<socklen_t>(size);
    return result;
}

}  // namespace

std::optional<SocketAddress> network_address(const std::string& host, std::uint16_t port) {
    sockaddr_in four{};
    sockaddr_in6 six{};
    if (::inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1) {
        four.sin_family = AF_INET;
        four.sin_port = htons(port);
        return socket_address_of(four);
    }
    if (::inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) == 1) {
        six.sin6_family = AF_INET6;
        six.sin6_port = htons(port);
        return socket_address_of(six);
    }
    return std::nullopt;
}

std::optional<SocketAddress> abstract_address(const std::string& name) {
    sockaddr_un address{};
    if (name.size() < 2 || name.size() > sizeof address.sun_path) {
        return std::nullopt;
    }
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data() + 1, name.size() - 1);  // the first byte stays zero, which makes the
                                                                          // socket abstract
    return socket_address_of(address, offsetof(sockaddr_un, sun_path) + name.size());
}

std::optional<SocketAddress> parse_endpoint(const std::string& text) {
    if (text.starts_with('@')) {
        return abstract_address(text);
    }
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos) {
        return std::nullopt;
    }
    const std::optional<std::uint16_t> port = parse_integer<std::uint16_t>(text.substr(colon + 1));
    std::string host = text.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
        host = host.substr(1, host.size() - 2);
    }
    return port ? network_address(host, *port) : std::nullopt;
}

UniqueFd open_socket(const SocketAddress& address, int flags) {
    return UniqueFd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
}

UniqueFd listen_at(const SocketAddress& address) {
    UniqueFd fd = open_socket(address, SOCK_NONBLOCK);
    const bool listens =
        fd.is_open() && ::bind(fd.value(), address.raw(), address.size) == 0 && ::listen(fd.value(), SOMAXCONN) == 0;
    return listens ? std::move(fd) : UniqueFd();
}

std::uint16_t port_of(int fd) {
    SocketAddress own;
    own.size = sizeof own.storage;
    if (::getsockname(fd, own.raw(), &own.size) != 0) {
        return 0;
    }
    if (own.storage.ss_family == AF_INET6) {
        sockaddr_in6 six{};
        std::memcpy(&six, &own.storage, sizeof six);
        return ntohs(six.sin6_port);
    }
    sockaddr_in four{};
    std::memcpy(&four, &own.storage, sizeof four);
    return ntohs(four.sin_port);
}

std::string numeric_text(const SocketAddress& address) {
    std::array<char, NI_MAXHOST> text{};
    return ::getnameinfo(address.raw(), address.size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0
               ? std::string(text.data())
               : std::string();
}

}  // namespace rueda::base
