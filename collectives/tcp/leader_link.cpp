// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/tcp/leader_link.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace rueda::collectives {

namespace {

/// One read can take at least this many bytes. Most messages have a few hundred bytes, so one read usually takes
/// everything that has arrived.
constexpr std::size_t kLeastRoom = std::size_t{16} << 10;

/// The number of bytes that a heartbeat has on the connection, with its header and its authentication code.
constexpr std::size_t kQuietMessageBytes = kLinkHeaderBytes + Transport::kQuietBytes + base::MessageCodes::kBytes;

}  // namespace

LeaderLink::LeaderLink(base::ProvenConnection connection, std::size_t most_bytes)
    : socket_(std::move(connection.socket)),
      sending_(connection.keys.sending),
      receiving_(connection.keys.receiving),
      most_bytes_(most_bytes),
      input_(2 * kLeastRoom) {
    // The messages are small and the other side waits for each of them, so TCP must not hold a message back to send
    // several at once.
    const int on = 1;
    ::setsockopt(socket_.value(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    be_readable_from(kQuietMessageBytes + 1);
}

/// Lets the kernel report the socket as readable only if at least `bytes` bytes can be read, or if the connection has
/// ended. The kernel also applies the new limit to bytes that have arrived already. Kernels that do not support this
/// for poll and epoll report every byte, so heartbeats then wake the rank too.
void LeaderLink::be_readable_from(std::size_t bytes) {
    if (std::exchange(readable_from_, bytes) != bytes) {
        const int least = static_cast<int>(bytes);
        ::setsockopt(socket_.value(), SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least);
    }
}

void LeaderLink::limit_silence(std::chrono::milliseconds limit) const {
    const auto milliseconds = static_cast<unsigned>(limit.count());
    ::setsockopt(socket_.value(), IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
}

std::uint64_t LeaderLink::send(const LinkHeader& header, std::string_view content) {
    LinkHeader sized = header;
    sized.bytes = static_cast<std::uint32_t>(content.size());
    const LinkHeaderBytes head = encode(sized);
    const std::string_view head_text(head.data(), head.size());
    const std::size_t before = output_.size();
    output_ += head_text;
    output_ += content;
    output_ += sending_.next(head_text, content);
    queued_ += output_.size() - before;
    flush();
    return queued_;
}

void LeaderLink::flush() {
    std::size_t sent = 0;
    while (!cannot_send_ && sent < output_.size()) {
        const ssize_t got =
            ::send(socket_.value(), output_.data() + sent, output_.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (got > 0) {
            sent += static_cast<std::size_t>(got);
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            cannot_send_ = true;
        }
    }
    sent_ += sent;
    output_.erase(0, cannot_send_ ? output_.size() : sent);
}

std::vector<LeaderLink::Message> LeaderLink::receive() {
    std::vector<Message> messages;
    bool has_more = true;
    while (has_more && ended_.is_ok()) {
        has_more = read_some();
        while (std::optional<Message> message = take_message()) {
            messages.push_back(std::move(*message));
        }
    }
    if (ended_.is_ok()) {
        // If a message has arrived in part, its rest may be shorter than a heartbeat. The kernel must report the rest
        // nevertheless.
        be_readable_from(begin_ == end_ ? kQuietMessageBytes + 1 : 1);
    }
    return messages;
}

/// Reads once. Returns whether there may be more to read.
bool LeaderLink::read_some() {
    if (begin_ == end_) {
        begin_ = end_ = 0;
    }
    if (input_.size() - end_ < kLeastRoom) {
        std::memmove(input_.data(), input_.data() + begin_, end_ - begin_);
        end_ -= std::exchange(begin_, 0);
        // A long message needs more memory. The memory grows with the bytes that have arrived, and not with the
        // announced length, which may be wrong.
        input_.resize(std::max(input_.size(), 2 * end_ + kLeastRoom));
    }
    const std::size_t room = input_.size() - end_;
    const ssize_t got = ::recv(socket_.value(), input_.data() + end_, room, MSG_DONTWAIT);
    if (got > 0) {
        end_ += static_cast<std::size_t>(got);
        return static_cast<std::size_t>(got) == room;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return errno == EINTR;
    }
    ended_ = got == 0 ? Status(ErrorCode::aborted, "the other process closed it or has ended")
                      : Status(ErrorCode::aborted, std::generic_category().message(errno));
    cannot_send_ = true;
    output_.clear();
    return false;
}

std::optional<LeaderLink::Message> LeaderLink::take_message() {
    const std::string_view left(input_.data() + begin_, end_ - begin_);
    if (left.size() < kLinkHeaderBytes) {
        return std::nullopt;
    }
    const std::string_view head = left.substr(0, kLinkHeaderBytes);
    const Result<LinkHeader> header = parse_link_header(head, most_bytes_);
    if (!header.is_ok()) {
        ended_ = header.status();
        return std::nullopt;
    }
    const std::size_t bytes = header.value().bytes;
    if (left.size() < kLinkHeaderBytes + bytes + base::MessageCodes::kBytes) {
        return std::nullopt;
    }
    const std::string_view content = left.substr(kLinkHeaderBytes, bytes);
    const std::string_view code = left.substr(kLinkHeaderBytes + bytes, base::MessageCodes::kBytes);
    if (!base::equal_in_constant_time(code, receiving_.next(head, content))) {
        ended_ = Status(ErrorCode::aborted, "a message was changed on its way");
        return std::nullopt;
    }
    begin_ += kLinkHeaderBytes + bytes + base::MessageCodes::kBytes;
    return Message{header.value(), std::string(content)};
}

}  // namespace rueda::collectives
