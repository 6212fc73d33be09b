// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/sockets/random_name.hpp"

#include <cerrno>
#include <string_view>

#include "collectives/host/sockets/descriptor_server.hpp"

namespace rueda::collectives {
namespace {

constexpr std::size_t kRandomPartBytes = kRandomPartGrowth + 1;  // it replaces one character

/// Whether `name` has the form of the names that rank 0 makes from `rendezvous`.
bool is_made_from(std::string_view rendezvous, std::string_view name) {
    const std::string_view fixed = rendezvous.substr(0, rendezvous.size() - 1);
    return name.size() == fixed.size() + kRandomPartBytes && name.starts_with(fixed) &&
           name.substr(fixed.size()).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

bool has_random_part(const std::string& rendezvous) { return rendezvous.front() == '@' && rendezvous.back() == '*'; }

ConnectAttempt connect_to_random_name(const std::string& rendezvous) {
    for (const std::string& name : listening_names()) {
        if (!is_made_from(rendezvous, name)) {
            continue;
        }
        ConnectAttempt attempt = connect_unix(name);
        if (attempt.error != 0) {
            continue;
        }
        if (const auto peer = peer_of(attempt.socket.value()); peer.is_ok() && check_same_user(peer.value()).is_ok()) {
            return attempt;
        }
    }
    return {base::UniqueFd(), ENOENT};
}

Result<std::string> make_random_name(const std::string& rendezvous) {
    if (const ConnectAttempt other = connect_to_random_name(rendezvous); other.error == 0) {
        const auto owner = peer_of(other.socket.value());
        return failure(ErrorCode::invalid_argument,
                       "rendezvous '{}' is in use already, by process {}: give every job a name of its own", rendezvous,
                       owner.is_ok() ? owner.value().pid : 0);
    }
    Result<std::string> token = random_token();
    RUEDA_RETURN_IF_FAILED(token.status());
    return rendezvous.substr(0, rendezvous.size() - 1) + token.value();
}

}  // namespace rueda::collectives
