// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/sockets/frame_stream.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace rueda::collectives {

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

Result<bool> FrameReceiver::advance(int socket) {
    while (header_received_ < header_bytes_.size()) {
        auto count = receive_some(socket, std::span(header_bytes_).subspan(header_received_));
        if (!count.is_ok()) {
            return count.status();
        }
        if (count.value() == 0) {
            return false;
        }
        header_received_ += count.value();
        if (header_received_ == header_bytes_.size()) {
            auto header = parse_header(header_bytes_);
            if (!header.is_ok()) {
                return header.status();
            }
            frame_.header = header.value();
            frame_.body.resize(frame_.header.length);
        }
    }
    while (body_received_ < frame_.body.size()) {
        auto count = receive_some(socket, std::span(frame_.body).subspan(body_received_));
        if (!count.is_ok()) {
            return count.status();
        }
        if (count.value() == 0) {
            return false;
        }
        body_received_ += count.value();
    }
    return true;
}

Frame FrameReceiver::take() {
    header_received_ = 0;
    body_received_ = 0;
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

Result<SendEnd> send_frame(int socket, FrameHeader header, std::span<const std::byte> body, Deadline deadline,
                           bool until_input) {
    header.length = body.size();
    auto end = send_bytes(socket, encode_header(header), deadline, until_input);
    if (!end.is_ok() || end.value() != SendEnd::sent) {
        return end;
    }
    return send_bytes(socket, body, deadline, until_input);
}

}  // namespace rueda::collectives
