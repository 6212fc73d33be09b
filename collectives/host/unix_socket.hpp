// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::collectives {

using Deadline = std::chrono::steady_clock::time_point;

[[nodiscard]] inline Deadline deadline_in(std::chrono::milliseconds time) {
    return std::chrono::steady_clock::now() + time;
}
[[nodiscard]] inline bool has_passed(Deadline deadline) { return std::chrono::steady_clock::now() >= deadline; }

/// For poll(2): rounded up, so that a wait never ends before its deadline; 0 once it has passed.
[[nodiscard]] int milliseconds_until(Deadline deadline);

struct PeerCredentials {
    std::uint32_t uid = 0;
    std::int32_t pid = 0;  ///< as seen from our pid namespace; 0 where it does not exist there
};

/// Names are "@name" (abstract namespace) or "/path". Sockets are streams, not blocking, closed on exec.
[[nodiscard]] Status check_socket_name(const std::string& name);
[[nodiscard]] Result<base::UniqueFd> listen_unix(const std::string& name, int backlog);

/// One attempt. An errno of 0 says it worked.
struct ConnectAttempt {
    base::UniqueFd socket;
    int error = 0;
};
[[nodiscard]] ConnectAttempt connect_unix(const std::string& name);
/// The other side may still come: nobody listens yet, or its queue is full.
[[nodiscard]] bool is_worth_retrying(int connect_error);

/// Some process of this network namespace has bound a socket to the name, whether it listens or not.
[[nodiscard]] bool is_taken(const std::string& name);

/// Who connected, or who called listen. The kernel vouches for it.
[[nodiscard]] Result<PeerCredentials> peer_of(int socket);
/// Only processes of this user are talked to.
[[nodiscard]] Status check_same_user(const PeerCredentials& peer);

/// False when the deadline passed first. A closed or broken peer counts as readable: read says what happened.
[[nodiscard]] Result<bool> wait_for_events(int fd, short events, Deadline deadline);

}  // namespace rueda::collectives
