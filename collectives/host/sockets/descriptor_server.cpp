// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/sockets/descriptor_server.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <system_error>
#include <utility>

#include "base/system/descriptor_message.hpp"
#include "base/system/thread_signals.hpp"

namespace rueda::collectives {
namespace {

/// A descriptor can be sent only together with at least one byte of data.
constexpr char kCarrier = 'd';

void send_descriptor(int socket, int fd) {
    char carrier = kCarrier;
    iovec data{&carrier, 1};
    // The send buffer of a new connection is empty, so the data byte always fits. If the send fails for another reason,
    // the failure is ignored here: this process closes the connection, and the receiver reports the closed connection.
    static_cast<void>(base::send_with_descriptors(socket, {&data, 1}, {&fd, 1}));
}

Result<base::UniqueFd> receive_descriptor(int socket) {
    char carrier = 0;
    iovec data{&carrier, 1};
    base::Attachments attached;
    const ssize_t count = base::receive_with_descriptors(socket, {&data, 1}, attached);
    if (count < 0) {
        return system_failure(ErrorCode::unsupported, "recvmsg");
    }
    if (count != 1 || carrier != kCarrier || attached.fds.size() != 1 || (attached.flags & MSG_CTRUNC) != 0) {
        return failure(ErrorCode::unsupported, "the connection ended without a descriptor");
    }
    return std::move(attached.fds.front());
}

}  // namespace

Result<std::string> random_token() {
    std::array<std::uint64_t, 2> bits{};
    if (::getrandom(bits.data(), sizeof(bits), 0) != static_cast<ssize_t>(sizeof(bits))) {
        return system_failure(ErrorCode::unsupported, "getrandom");
    }
    return fmt::format("{:016x}{:016x}", bits[0], bits[1]);
}

DescriptorServer::DescriptorServer(base::UniqueFd listener, base::UniqueFd stop, int fd)
    : listener_(std::move(listener)), stop_(std::move(stop)), fd_(fd) {}

Result<std::unique_ptr<DescriptorServer>> DescriptorServer::start(const std::string& name, int fd) {
    auto listener = listen_unix(name, 256);
    if (!listener.is_ok()) {
        return listener.status();
    }
    base::UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!stop.is_open()) {
        return system_failure(ErrorCode::resource_exhausted, "eventfd");
    }
    std::unique_ptr<DescriptorServer> server(new DescriptorServer(std::move(listener).value(), std::move(stop), fd));
    const base::ProgramSignalsBlocked blocked;
    Status status;
    try {
        server->thread_ = std::thread([self = server.get()] { self->serve(); });
    } catch (const std::system_error& error) {
        status = failure(ErrorCode::resource_exhausted, "no thread could be started: {}", error.what());
    }
    if (!status.is_ok()) {
        return status;
    }
    return server;
}

DescriptorServer::~DescriptorServer() {
    if (thread_.joinable()) {
        const std::uint64_t one = 1;
        // The eventfd's counter is far from its limit, so this write cannot fail.
        static_cast<void>(::write(stop_.value(), &one, sizeof(one)) == static_cast<ssize_t>(sizeof(one)));
        thread_.join();
    }
}

void DescriptorServer::serve() const {
    while (true) {
        std::array<pollfd, 2> entries{{{listener_.value(), POLLIN, 0}, {stop_.value(), POLLIN, 0}}};
        if (::poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR) {
            return;
        }
        if (entries[1].revents != 0) {
            return;
        }
        if ((entries[0].revents & (POLLERR | POLLNVAL)) != 0) {
            return;
        }
        const base::UniqueFd socket(::accept4(listener_.value(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket.is_open()) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
                // The connection could not be accepted and stays in the queue, so poll would report it again at once.
                // This thread therefore pauses for 10 ms, unless it has to end.
                static_cast<void>(
                    wait_for_events(stop_.value(), POLLIN, deadline_in(std::chrono::milliseconds(10))).is_ok());
            }
            continue;
        }
        const auto peer = peer_of(socket.value());
        if (peer.is_ok() && check_same_user(peer.value()).is_ok()) {
            send_descriptor(socket.value(), fd_);
        }
    }
}

Result<base::UniqueFd> fetch_descriptor(const std::string& name, int leader_pid, Deadline deadline) {
    const ConnectAttempt attempt = connect_unix(name);
    if (attempt.error != 0) {
        return system_failure(ErrorCode::unsupported, "connect", attempt.error);
    }
    const auto peer = peer_of(attempt.socket.value());
    if (!peer.is_ok()) {
        return peer.status();
    }
    RUEDA_RETURN_IF_FAILED(check_same_user(peer.value()));
    if (peer.value().pid != leader_pid) {
        return failure(ErrorCode::unsupported, "process {} listens there, expected {}", peer.value().pid, leader_pid);
    }
    auto ready = wait_for_events(attempt.socket.value(), POLLIN, deadline);
    if (!ready.is_ok()) {
        return ready.status();
    }
    if (!ready.value()) {
        return failure(ErrorCode::timeout, "process {} did not answer in time", leader_pid);
    }
    return receive_descriptor(attempt.socket.value());
}

}  // namespace rueda::collectives
