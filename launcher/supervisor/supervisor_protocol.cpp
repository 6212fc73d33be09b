// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/supervisor/supervisor_protocol.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/system/descriptor_message.hpp"
#include "base/text.hpp"

namespace rueda::launcher {

namespace {

struct AbstractAddress {
    sockaddr_un address{};
    socklen_t size = 0;
};

Result<AbstractAddress> abstract_address(const std::string& name) {
    AbstractAddress result;
    if (name.size() < 2 || name.front() != '@' || name.size() > sizeof result.address.sun_path) {
        return failure(ErrorCode::invalid_argument, "the socket name is {}; expected '@name' of at most {} bytes",
                       base::quote(name), sizeof result.address.sun_path);
    }
    result.address.sun_family = AF_UNIX;
    std::memcpy(result.address.sun_path + 1, name.data() + 1, name.size() - 1);  // the first byte stays zero: abstract
    result.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    return result;
}

Result<base::UniqueFd> open_socket() {
    base::UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!fd.is_open()) {
        return system_failure(ErrorCode::resource_exhausted, "socket(AF_UNIX)");
    }
    return fd;
}

}  // namespace

Result<base::UniqueFd> listen_for_supervisors(const std::string& name) {
    const Result<AbstractAddress> address = abstract_address(name);
    RUEDA_RETURN_IF_FAILED(address.status());
    Result<base::UniqueFd> socket = open_socket();
    RUEDA_RETURN_IF_FAILED(socket.status());
    const int fd = socket.value().value();
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&address.value().address), address.value().size) != 0) {
        return system_failure(ErrorCode::resource_exhausted, "bind(" + name + ")");
    }
    if (::listen(fd, SOMAXCONN) != 0) {
        return system_failure(ErrorCode::resource_exhausted, "listen");
    }
    return socket;
}

Result<base::UniqueFd> connect_to_ruedarun(const std::string& name) {
    const Result<AbstractAddress> address = abstract_address(name);
    RUEDA_RETURN_IF_FAILED(address.status());
    Result<base::UniqueFd> socket = open_socket();
    RUEDA_RETURN_IF_FAILED(socket.status());
    const int fd = socket.value().value();
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address.value().address), address.value().size) != 0) {
        return system_failure(ErrorCode::unsupported, "connect(" + name + ")");
    }
    if (!peer_is_same_user(fd)) {
        return failure(ErrorCode::unsupported, "another user listens at {}", name);
    }
    return socket;
}

bool peer_is_same_user(int socket) {
    ucred peer{};
    socklen_t size = sizeof peer;
    return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

Status send_message(int socket, SupervisorWord word, std::int32_t value, std::span<const int> fds,
                    std::string_view text) {
    SupervisorMessage message;
    message.word = word;
    message.value = value;
    std::string copy = base::shortened(text, kMostMessageText);
    std::array<iovec, 2> body = {{{&message, sizeof message}, {copy.data(), copy.size()}}};
    const std::span<iovec> parts(body.data(), copy.empty() ? 1 : 2);
    if (base::send_with_descriptors(socket, parts, fds) != static_cast<ssize_t>(sizeof message + copy.size())) {
        return system_failure(ErrorCode::internal, "sendmsg");
    }
    return {};
}

Reception receive_message(int socket, ReceivedMessage& received) {
    received = ReceivedMessage();
    received.text.resize(kMostMessageText);
    std::array<iovec, 2> body = {
        {{&received.message, sizeof received.message}, {received.text.data(), received.text.size()}}};
    base::Attachments attached;
    const ssize_t got = base::receive_with_descriptors(socket, body, attached);
    if (got < 0) {
        // The other end has closed with something of ours unread: said once, before what it had sent.
        const bool more_may_come = errno == EAGAIN || errno == EINTR || errno == ECONNRESET;
        return more_may_come ? Reception::nothing_yet : Reception::closed;
    }
    received.fds = std::move(attached.fds);
    const auto bytes = static_cast<std::size_t>(got);
    received.text.resize(bytes - std::min(bytes, sizeof received.message));
    const bool is_ours = bytes >= sizeof received.message && (attached.flags & MSG_TRUNC) == 0 &&
                         received.message.magic == SupervisorMessage::kMagic;
    return is_ours ? Reception::message : Reception::closed;
}

}  // namespace rueda::launcher
