// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/connection/control_address.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/network/endpoint_list.hpp"
#include "base/network/network_addresses.hpp"
#include "base/network/socket_address.hpp"
#include "base/text.hpp"
#include "launcher/hosts/network.hpp"
#include "launcher/options/text_parts.hpp"
#include "launcher/plan/surroundings.hpp"

namespace rueda::launcher {

namespace {

/// Returns the addresses that supervisors (parents of ranks) may try. The list contains loopback addresses only if
/// there are no other addresses.
std::vector<base::NetworkAddress> addresses_to_listen_at(const std::vector<std::string>& interfaces) {
    std::vector<base::NetworkAddress> chosen;
    const std::vector<base::NetworkAddress> all = base::network_addresses();
    for (const base::NetworkAddress& address : all) {
        const bool wanted =
            interfaces.empty() ? !address.is_loopback
                               : std::find(interfaces.begin(), interfaces.end(), address.interface) != interfaces.end();
        if (wanted && !address.is_link_local && chosen.size() < base::kMostEndpoints) {
            chosen.push_back(address);
        }
    }
    if (chosen.empty() && interfaces.empty()) {
        std::copy_if(all.begin(), all.end(), std::back_inserter(chosen),
                     [](const base::NetworkAddress& address) { return address.is_loopback; });
    }
    return chosen;
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
        if (!base::parse_endpoint(std::string(endpoint))) {
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
    listener.sockets.push_back(base::listen_at(*base::abstract_address(name)));
    if (!listener.sockets.back().is_open()) {
        return system_failure(ErrorCode::resource_exhausted, "listening at " + name);
    }
    listener.address.endpoints = {name};
    return with_secret(std::move(listener));
}

Result<ControlListener> listen_on_network(const std::vector<std::string>& interfaces) {
    ControlListener listener;
    for (const base::NetworkAddress& address : addresses_to_listen_at(interfaces)) {
        const std::optional<base::SocketAddress> where = base::network_address(address.address, 0);
        base::UniqueFd socket = where ? base::listen_at(*where) : base::UniqueFd();
        if (socket.is_open()) {
            const std::uint16_t port = base::port_of(socket.value());
            listener.address.endpoints.push_back(base::endpoint_text(address.address, address.is_ipv6, port));
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

ConnectionEnds ends_of_connection(int socket) {
    base::SocketAddress own;
    base::SocketAddress peer;
    own.size = peer.size = sizeof own.storage;
    if (::getsockname(socket, own.raw(), &own.size) != 0 || ::getpeername(socket, peer.raw(), &peer.size) != 0) {
        return {};
    }
    return {base::numeric_text(own), base::numeric_text(peer)};
}

}  // namespace rueda::launcher
