// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/sockets/frame_stream.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace rueda::collectives {
namespace {

std::string_view text_of_bytes(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Receives available bytes until `bytes` is full. `received` counts the bytes that have arrived. Returns true if
/// `bytes` is full.
Result<bool> fill_from(int socket, std::span<std::byte> bytes, std::size_t& received) {
    while (received < bytes.size()) {
        const auto count = receive_some(socket, bytes.subspan(received));
        RUEDA_RETURN_IF_FAILED(count.status());
        if (count.value() == 0) {
            return false;
        }
        received += count.value();
    }
    return true;
}

}  // namespace

FrameSocket::FrameSocket(base::ProvenConnection connection)
    : socket_(std::move(connection.socket)), sending_(connection.keys.sending), receiving_(connection.keys.receiving) {
    // The other side waits for each message, so TCP must not delay a short message.
    const int on = 1;
    ::setsockopt(socket_.value(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Bytes FrameSocket::code_to_send(std::span<const std::byte> header, std::span<const std::byte> body) {
    if (!sending_) {
        return {};
    }
    const std::string code = sending_->next(text_of_bytes(header), text_of_bytes(body));
    const auto bytes = std::as_bytes(std::span(code));
    return {bytes.begin(), bytes.end()};
}

Status FrameSocket::check_code(std::span<const std::byte> header, std::span<const std::byte> body,
                               std::span<const std::byte> code) {
    const bool is_right =
        !receiving_ ||
        base::equal_in_constant_time(text_of_bytes(code), receiving_->next(text_of_bytes(header), text_of_bytes(body)));
    return is_right ? Status() : failure(ErrorCode::aborted, "has sent a message that was changed on its way");
}

Result<std::size_t> receive_some(int socket, std::span<std::byte> bytes) {
    while (true) {
        const ssize_t count = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (count > 0) {
            return static_cast<std::size_t>(count);
        }
        if (count == 0 || errno == ECONNRESET) {
            return failure(ErrorCode::aborted, "has closed its connection: it has ended, or left the job");
        }
        if (errno == EAGAIN) {
            return std::size_t{0};
        }
        if (errno != EINTR) {
            return system_failure(ErrorCode::aborted, "cannot be heard: recv");
        }
    }
}

Result<bool> FrameReceiver::advance(FrameSocket& socket) {
    if (header_received_ < header_bytes_.size()) {
        auto is_complete = fill_from(socket.fd(), header_bytes_, header_received_);
        if (!is_complete.is_ok() || !is_complete.value()) {
            return is_complete;
        }
        const auto header = parse_header(header_bytes_);
        RUEDA_RETURN_IF_FAILED(header.status());
        frame_.header = header.value();
        frame_.body.resize(frame_.header.length);
    }
    auto is_complete = fill_from(socket.fd(), frame_.body, body_received_);
    const auto code = std::span(code_).first(socket.code_bytes());
    if (is_complete.is_ok() && is_complete.value()) {
        is_complete = fill_from(socket.fd(), code, code_received_);
    }
    if (is_complete.is_ok() && is_complete.value()) {
        RUEDA_RETURN_IF_FAILED(socket.check_code(header_bytes_, frame_.body, code));
    }
    return is_complete;
}

Frame FrameReceiver::take() {
    header_received_ = 0;
    body_received_ = 0;
    code_received_ = 0;
    return std::exchange(frame_, Frame());
}

Result<SendEnd> send_bytes(int socket, std::span<const std::byte> bytes, Deadline deadline, bool until_input) {
    while (!bytes.empty()) {
        const ssize_t count = ::send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count >= 0) {
            bytes = bytes.subspan(static_cast<std::size_t>(count));
            continue;
        }
        if (errno == EPIPE || errno == ECONNRESET) {
            return SendEnd::interrupted;
        }
        if (errno != EAGAIN && errno != EINTR) {
            return system_failure(ErrorCode::aborted, "cannot be reached: send");
        }
        pollfd entry{socket, static_cast<short>(until_input ? POLLOUT | POLLIN : POLLOUT), 0};
        const int ready = ::poll(&entry, 1, milliseconds_until(deadline));
        if (ready < 0 && errno != EINTR) {
            return system_failure(ErrorCode::internal, "poll");
        }
        if (ready > 0 && (entry.revents & POLLIN) != 0) {
            return SendEnd::interrupted;
        }
        if (ready == 0 && has_passed(deadline)) {
            return SendEnd::timed_out;
        }
    }
    return SendEnd::sent;
}

Result<bool> wait_for_answer(int socket, Deadline deadline, const Interruption& interruption, int rank, int size) {
    for (;;) {
        const Deadline next = interruption ? std::min(deadline, deadline_in(kInterruptionInterval)) : deadline;
        auto ready = wait_for_events(socket, POLLIN, next);
        if (!ready.is_ok() || ready.value() || has_passed(deadline)) {
            return ready;
        }
        RUEDA_RETURN_IF_FAILED(ask(interruption, rank, size));
    }
}

Result<SendEnd> send_frame(FrameSocket& socket, FrameHeader header, std::span<const std::byte> body, Deadline deadline,
                           bool until_input) {
    header.length = body.size();
    const Bytes head = encode_header(header);
    const Bytes code = socket.code_to_send(head, body);
    for (const std::span<const std::byte> part :
         {std::span(std::as_const(head)), body, std::span(std::as_const(code))}) {
        auto end = send_bytes(socket.fd(), part, deadline, until_input);
        if (!end.is_ok() || end.value() != SendEnd::sent) {
            return end;
        }
    }
    return SendEnd::sent;
}

}  // namespace rueda::collectives
