// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/sockets/unix_socket.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

namespace rueda::collectives {
namespace {

struct UnixAddress {
    sockaddr_un address{};
    socklen_t length = 0;
};

/// Builds the address. `name` was already checked. In an abstract address, a zero byte stands in place of the '@', and
/// the address length gives the end of the name.
UnixAddress address_of(const std::string& name) {
    UnixAddress result;
    result.address.sun_family = AF_UNIX;
    std::memcpy(result.address.sun_path, name.data(), name.size());
    const bool is_abstract = name.front() == '@';
    if (is_abstract) {
        result.address.sun_path[0] = '\0';
    }
    result.length =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + static_cast<std::size_t>(!is_abstract));
    return result;
}

/// Describes the process that listens at a name, for example ", by process 17 of user 1000". Returns an empty text if
/// no process listens.
std::string describe_listener(const std::string& name) {
    const ConnectAttempt attempt = connect_unix(name);
    if (attempt.error != 0) {
        return "";
    }
    const Result<PeerCredentials> owner = peer_of(attempt.socket.value());
    return owner.is_ok() ? fmt::format(", by process {} of user {}", owner.value().pid, owner.value().uid) : "";
}

std::vector<UnixSocketLine> unconnected_sockets() {
    std::ifstream list("/proc/net/unix");
    return parse_unix_sockets(list);
}

base::UniqueFd new_socket() { return base::UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

}  // namespace

std::vector<UnixSocketLine> parse_unix_sockets(std::istream& list) {
    constexpr const char* kUnconnected = "01";
    constexpr const char* kListens = "00010000";  // the flag SO_ACCEPTCON
    std::vector<UnixSocketLine> found;
    for (std::string line; std::getline(list, line);) {
        std::istringstream words(line);
        std::string address, references, protocol, flags, type, state, inode, name;
        if (words >> address >> references >> protocol >> flags >> type >> state >> inode && state == kUnconnected &&
            std::getline(words >> std::ws, name)) {
            found.push_back({name, flags == kListens});
        }
    }
    return found;
}

int milliseconds_until(Deadline deadline) {
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    return static_cast<int>(std::clamp<std::chrono::milliseconds::rep>(rest, 0, INT_MAX));
}

Status check_socket_name(const std::string& name) {
    constexpr std::size_t kLimit = sizeof(sockaddr_un::sun_path) - 1;
    if (name.size() < 2 || (name.front() != '@' && name.front() != '/')) {
        return failure(ErrorCode::invalid_argument,
                       "rendezvous '{}' cannot be used, expected \"@name\" or an absolute \"/path\"", name);
    }
    if (name.size() > kLimit) {
        return failure(
            ErrorCode::invalid_argument,
            "rendezvous '{}' has {} bytes, expected at most {} (the limit of Unix sockets): use a shorter one", name,
            name.size(), kLimit);
    }
    if (name.find('\0') != std::string::npos) {
        return failure(ErrorCode::invalid_argument, "rendezvous has a zero byte in its name, expected text");
    }
    return {};
}

Result<base::UniqueFd> listen_unix(const std::string& name, int backlog) {
    base::UniqueFd listener = new_socket();
    if (!listener.is_open()) {
        return system_failure(ErrorCode::resource_exhausted, "socket");
    }
    // bind() creates the file of a path socket with the mode of the socket's descriptor, so fchmod() is called first.
    // umask() would also limit the mode, but would affect the whole process.
    if (::fchmod(listener.value(), 0600) != 0) {
        return system_failure(ErrorCode::unsupported, "fchmod of a socket");
    }
    const UnixAddress address = address_of(name);
    if (::bind(listener.value(), reinterpret_cast<const sockaddr*>(&address.address), address.length) != 0) {
        return errno == EADDRINUSE
                   ? failure(ErrorCode::invalid_argument,
                             "rendezvous '{}' is in use already{}: give every job a name of its own, or "
                             "remove the file if no job runs",
                             name, describe_listener(name))
                   : system_failure(ErrorCode::unsupported, fmt::format("bind of '{}'", name));
    }
    if (::listen(listener.value(), backlog) != 0) {
        const Status status = system_failure(ErrorCode::unsupported, fmt::format("listen on '{}'", name));
        if (name.front() == '/') {
            ::unlink(name.c_str());
        }
        return status;
    }
    return listener;
}

ConnectAttempt connect_unix(const std::string& name) {
    ConnectAttempt attempt{new_socket(), 0};
    const UnixAddress address = address_of(name);
    if (!attempt.socket.is_open() ||
        ::connect(attempt.socket.value(), reinterpret_cast<const sockaddr*>(&address.address), address.length) != 0) {
        attempt.error = errno;
        attempt.socket.reset();
    }
    return attempt;
}

bool is_worth_retrying(int connect_error) {
    return connect_error == ECONNREFUSED || connect_error == ENOENT || connect_error == EAGAIN ||
           connect_error == EINTR;
}

bool is_taken(const std::string& name) {
    if (name.front() != '@') {
        return ::access(name.c_str(), F_OK) == 0;
    }
    // Accepted connections are also listed under the listener's name, as long as any process has them open. For
    // example, a child that was forked in an earlier job may have them open. The state of such a connection is not
    // "unconnected", so the code can skip it.
    const std::vector<UnixSocketLine> lines = unconnected_sockets();
    return std::any_of(lines.begin(), lines.end(), [&](const UnixSocketLine& line) { return line.name == name; });
}

std::vector<std::string> listening_names() {
    std::vector<std::string> names;
    for (UnixSocketLine& line : unconnected_sockets()) {
        if (line.listens && line.name.starts_with('@')) {
            names.push_back(std::move(line.name));
        }
    }
    return names;
}

Result<PeerCredentials> peer_of(int socket) {
    ucred credentials{};
    socklen_t length = sizeof(credentials);
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0 || length != sizeof(credentials)) {
        return system_failure(ErrorCode::unsupported, "getsockopt(SO_PEERCRED)");
    }
    return PeerCredentials{credentials.uid, credentials.pid};
}

Status check_same_user(const PeerCredentials& peer) {
    const std::uint32_t own = ::geteuid();
    if (peer.uid != own) {
        return failure(ErrorCode::unsupported,
                       "process {} belongs to user {}, expected {}: all ranks must run as the same user", peer.pid,
                       peer.uid, own);
    }
    return {};
}

Result<bool> wait_for_events(int fd, short events, Deadline deadline) {
    while (true) {
        pollfd entry{fd, events, 0};
        const int ready = ::poll(&entry, 1, milliseconds_until(deadline));
        if (ready > 0) {
            return true;
        }
        if (ready < 0 && errno != EINTR) {
            return system_failure(ErrorCode::internal, "poll");
        }
        if (has_passed(deadline)) {
            return false;
        }
    }
}

}  // namespace rueda::collectives
