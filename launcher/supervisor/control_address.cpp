// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/supervisor/control_address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>

#include "base/numbers.hpp"
#include "base/text.hpp"
#include "launcher/hosts/network.hpp"
#include "launcher/options/text_parts.hpp"
#include "launcher/plan/surroundings.hpp"
#include "launcher/processes/poll_set.hpp"

namespace rueda::launcher {

namespace {

constexpr std::chrono::seconds kConnectTime{20};

struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t size = 0;
};

template <class Address>
SocketAddress socket_address_of(const Address& address, std::size_t size = sizeof(Address)) {
    SocketAddress result;
    std::memcpy(&result.storage, &address, sizeof address);
    result.size = static_cast<socklen_t>(size);
    return result;
}

/// Parses a numeric address with a port. Names are refused, because ruedarun writes only numeric addresses.
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

/// Makes the address of an abstract Unix socket from "@name". Such a socket has no file that could be left behind.
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

/// Parses "@ruedarun-0ff", "10.0.0.1:4711" or "[fd00::1]:4711".
std::optional<SocketAddress> parse_endpoint(const std::string& text) {
    if (text.starts_with('@')) {
        return abstract_address(text);
    }
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos) {
        return std::nullopt;
    }
    const std::optional<std::uint16_t> port = base::parse_integer<std::uint16_t>(text.substr(colon + 1));
    std::string host = text.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
        host = host.substr(1, host.size() - 2);
    }
    return port ? network_address(host, *port) : std::nullopt;
}

const sockaddr* raw(const SocketAddress& address) { return reinterpret_cast<const sockaddr*>(&address.storage); }

base::UniqueFd open_socket(const SocketAddress& address, int flags) {
    return base::UniqueFd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
}

/// Returns a listening socket. If the system refuses, the result holds no socket, and errno gives the reason.
base::UniqueFd listen_at(const SocketAddress& address) {
    base::UniqueFd fd = open_socket(address, SOCK_NONBLOCK);
    const bool listens =
        fd.is_open() && ::bind(fd.value(), raw(address), address.size) == 0 && ::listen(fd.value(), SOMAXCONN) == 0;
    return listens ? std::move(fd) : base::UniqueFd();
}

std::uint16_t port_of(int fd) {
    SocketAddress own;
    own.size = sizeof own.storage;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own.storage), &own.size) != 0) {
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

/// Returns the numeric address without port, for example "10.0.0.1" or "fd00::1".
std::string numeric_text(const SocketAddress& address) {
    std::array<char, NI_MAXHOST> text{};
    return ::getnameinfo(raw(address), address.size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0
               ? std::string(text.data())
               : std::string();
}

/// Returns the addresses that supervisors (parents of ranks) may try. The list contains loopback addresses only if
/// there are no other addresses.
std::vector<NetworkAddress> addresses_to_listen_at(const std::vector<std::string>& interfaces) {
    constexpr std::size_t kMost = 16;
    std::vector<NetworkAddress> chosen;
    const std::vector<NetworkAddress> all = network_addresses();
    for (const NetworkAddress& address : all) {
        const bool wanted =
            interfaces.empty() ? !address.is_loopback
                               : std::find(interfaces.begin(), interfaces.end(), address.interface) != interfaces.end();
        if (wanted && !address.is_link_local && chosen.size() < kMost) {
            chosen.push_back(address);
        }
    }
    if (chosen.empty() && interfaces.empty()) {
        std::copy_if(all.begin(), all.end(), std::back_inserter(chosen),
                     [](const NetworkAddress& address) { return address.is_loopback; });
    }
    return chosen;
}

/// Connects to a Unix socket with a blocking call. If the queue of the listening socket is full, a blocking connect
/// waits, but a non-blocking connect fails.
Result<base::UniqueFd> connect_on_this_host(const std::string& name) {
    const std::optional<SocketAddress> where = parse_endpoint(name);
    base::UniqueFd fd = where ? open_socket(*where, 0) : base::UniqueFd();
    if (!fd.is_open() || ::connect(fd.value(), raw(*where), where->size) != 0) {
        return system_failure(ErrorCode::unsupported, "connect(" + name + ")");
    }
    if (!may_be_of_this_job(fd.value())) {
        return failure(ErrorCode::unsupported, "another user listens at {}", name);
    }
    return fd;
}

/// Tries all endpoints at the same time, and uses the first that answers.
Result<base::UniqueFd> connect_over_network(const std::vector<std::string>& endpoints) {
    std::vector<base::UniqueFd> attempts;
    for (const std::string& endpoint : endpoints) {
        const std::optional<SocketAddress> where = parse_endpoint(endpoint);
        base::UniqueFd fd = where ? open_socket(*where, SOCK_NONBLOCK) : base::UniqueFd();
        if (fd.is_open() && (::connect(fd.value(), raw(*where), where->size) == 0 || errno == EINPROGRESS)) {
            attempts.push_back(std::move(fd));
        }
    }
    base::UniqueFd connected;
    const auto deadline = std::chrono::steady_clock::now() + kConnectTime;
    while (!connected.is_open() && !attempts.empty() && std::chrono::steady_clock::now() < deadline) {
        PollSet set;
        set.wake_at(deadline);
        for (base::UniqueFd& attempt : attempts) {
            set.add(attempt.value(), POLLOUT, [&] {
                int error = 0;
                socklen_t size = sizeof error;
                ::getsockopt(attempt.value(), SOL_SOCKET, SO_ERROR, &error, &size);
                if (error == 0 && !connected.is_open()) {
                    connected = std::move(attempt);
                } else {
                    attempt.reset();
                }
            });
        }
        set.wait_and_dispatch();
        std::erase_if(attempts, [](const base::UniqueFd& attempt) { return !attempt.is_open(); });
    }
    if (!connected.is_open()) {
        return failure(ErrorCode::unsupported,
                       "none of {} can be reached from {}; check the network between the hosts, or name the right one "
                       "with --network-interfaces",
                       fmt::join(endpoints, ", "), host_name());
    }
    return connected;
}

Result<ControlListener> with_secret(ControlListener listener) {
    Result<std::string> secret = random_token();
    RUEDA_RETURN_IF_FAILED(secret.status());
    listener.address.secret = std::move(secret).value();
    return listener;
}

}  // namespace

std::string format_control_address(const ControlAddress& address) {
    return fmt::format("{}@{}", address.secret, fmt::join(address.endpoints, ","));
}

Result<ControlAddress> parse_control_address(std::string_view text) {
    ControlAddress address;
    const std::size_t at = text.find('@');
    address.secret = text.substr(0, at);
    std::string_view rest = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
    while (!rest.empty()) {
        const std::string_view endpoint = take_until(rest, ',');
        if (!parse_endpoint(std::string(endpoint))) {
            return failure(ErrorCode::invalid_argument, "{} is no address with a port", base::quote(endpoint));
        }
        address.endpoints.emplace_back(endpoint);
    }
    if (address.secret.empty() || address.endpoints.empty()) {
        return failure(ErrorCode::invalid_argument, "RUEDARUN_CONTROL has no secret and address");
    }
    return address;
}

Result<ControlListener> listen_on_this_host() {
    const Result<std::string> token = random_token();
    RUEDA_RETURN_IF_FAILED(token.status());
    const std::string name = "@ruedarun-" + token.value();
    ControlListener listener;
    listener.sockets.push_back(listen_at(*abstract_address(name)));
    if (!listener.sockets.back().is_open()) {
        return system_failure(ErrorCode::resource_exhausted, "listening at " + name);
    }
    listener.address.endpoints = {name};
    return with_secret(std::move(listener));
}

Result<ControlListener> listen_on_network(const std::vector<std::string>& interfaces) {
    ControlListener listener;
    for (const NetworkAddress& address : addresses_to_listen_at(interfaces)) {
        const std::optional<SocketAddress> where = network_address(address.address, 0);
        base::UniqueFd socket = where ? listen_at(*where) : base::UniqueFd();
        if (socket.is_open()) {
            const std::uint16_t port = port_of(socket.value());
            listener.address.endpoints.push_back(address.is_ipv6 ? fmt::format("[{}]:{}", address.address, port)
                                                                 : fmt::format("{}:{}", address.address, port));
            listener.sockets.push_back(std::move(socket));
        }
    }
    if (listener.sockets.empty()) {
        return failure(ErrorCode::resource_exhausted,
                       "there is no network address to listen at{}; check --network-interfaces",
                       interfaces.empty() ? "" : fmt::format(" on {}", fmt::join(interfaces, ", ")));
    }
    return with_secret(std::move(listener));
}

Result<base::UniqueFd> connect_to_ruedarun(const ControlAddress& address) {
    const std::string& first = address.endpoints.front();
    return first.starts_with('@') ? connect_on_this_host(first) : connect_over_network(address.endpoints);
}

bool may_be_of_this_job(int socket) {
    int domain = AF_UNSPEC;
    socklen_t size = sizeof domain;
    if (::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_UNIX) {
        return domain == AF_INET || domain == AF_INET6;
    }
    ucred peer{};
    size = sizeof peer;
    return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

ConnectionEnds ends_of_connection(int socket) {
    SocketAddress own;
    SocketAddress peer;
    own.size = peer.size = sizeof own.storage;
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own.storage), &own.size) != 0 ||
        ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer.storage), &peer.size) != 0) {
        return {};
    }
    return {numeric_text(own), numeric_text(peer)};
}

bool is_same_secret(std::string_view left, std::string_view right) {
    unsigned difference = left.size() == right.size() ? 0 : 1;
    for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
        difference |= static_cast<unsigned>(left[i] ^ right[i]);
    }
    return difference == 0;
}

}  // namespace rueda::launcher
