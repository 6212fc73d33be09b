// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::collectives {

using Deadline = std::chrono::steady_clock::time_point;

[[nodiscard]] inline Deadline deadline_in(std::chrono::milliseconds time) {
    return std::chrono::steady_clock::now() + time;
}
[[nodiscard]] inline bool has_passed(Deadline deadline) { return std::chrono::steady_clock::now() >= deadline; }

/// Returns the time until the deadline in the form that poll(2) takes. The time is rounded up, so a wait never ends
/// before its deadline. After the deadline, the result is 0.
[[nodiscard]] int milliseconds_until(Deadline deadline);

struct PeerCredentials {
    std::uint32_t uid = 0;
    std::int32_t pid = 0;  ///< pid in this process' pid namespace; 0 if the process is not visible there
};

/// The functions below take a name of the form "@name" (abstract namespace) or "/path". Their sockets are streams,
/// non-blocking, and closed on exec.
[[nodiscard]] Status check_socket_name(const std::string& name);
[[nodiscard]] Result<base::UniqueFd> listen_unix(const std::string& name, int backlog);

/// The result of one attempt to connect. The attempt succeeded if `error` (an errno value) is 0.
struct ConnectAttempt {
    base::UniqueFd socket;
    int error = 0;
};
[[nodiscard]] ConnectAttempt connect_unix(const std::string& name);
/// Whether a later attempt may succeed: nobody listens yet, or the listener's queue is full.
[[nodiscard]] bool is_worth_retrying(int connect_error);

/// A socket in the kernel's list of Unix sockets.
struct UnixSocketLine {
    std::string name;
    bool listens = false;

    [[nodiscard]] bool operator==(const UnixSocketLine&) const = default;
};
/// Parses the text of /proc/net/unix. Returns the sockets that have a name and are not connected. A line contains
/// address, references, protocol, flags, type, state, inode and name. An abstract name is shown with '@' in place of
/// its zero byte. Any user can choose a name that contains line breaks, and so forge a line. The caller must therefore
/// ask the kernel who owns the socket (peer_of()).
[[nodiscard]] std::vector<UnixSocketLine> parse_unix_sockets(std::istream& list);

/// Whether a process of this network namespace has bound a socket to the name. The process need not listen.
[[nodiscard]] bool is_taken(const std::string& name);

/// Returns the abstract names ("@name") of this network namespace at which a process listens.
[[nodiscard]] std::vector<std::string> listening_names();

/// Returns the credentials of the process that called connect() or listen(). They come from the kernel and cannot be
/// forged.
[[nodiscard]] Result<PeerCredentials> peer_of(int socket);
/// Fails unless the other process belongs to this user. Rueda communicates only with processes of the same user.
[[nodiscard]] Status check_same_user(const PeerCredentials& peer);

/// Waits until one of `events` occurs. Returns false if the deadline passes first. A closed or broken connection counts
/// as readable; the next read then returns the error.
[[nodiscard]] Result<bool> wait_for_events(int fd, short events, Deadline deadline);

}  // namespace rueda::collectives
