// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/supervisor/frame_link.hpp"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/system/descriptor_message.hpp"

namespace rueda::launcher {

namespace {

/// The kernel sends a probe in each second in which nothing else arrives. The kernel of a host that is alive answers
/// it, so such a host is never silent for long.
constexpr int kProbeSeconds = 1;
/// If the other host answers neither data nor probes, the connection fails after this time. (If TCP_USER_TIMEOUT is
/// set, Linux ignores the number of probes, TCP_KEEPCNT.)
constexpr int kUnansweredMilliseconds = 11000;

/// The letters "rue" and the version of the frame format. All hosts of a job must have the same byte order, which MPI
/// requires too. If a host has another byte order, its bytes give a different number here.
constexpr std::uint32_t kFrameMagic = 0x72756502;

struct FrameHeader {
    std::uint32_t magic = kFrameMagic;
    FrameKind kind = FrameKind::hello;
    std::int32_t value = 0;
    std::uint32_t bytes = 0;
};
static_assert(sizeof(FrameHeader) == 16 && std::is_trivially_copyable_v<FrameHeader>);

std::string_view bytes_of_header(const FrameHeader& header) {
    return {reinterpret_cast<const char*>(&header), sizeof header};
}

/// Makes TCP detect a vanished host. For a Unix socket, these options fail, but they are not needed: the kernel reports
/// the end of a local process at once.
void watch_connection(int fd) {
    const auto set = [fd](int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof value); };
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, kProbeSeconds);
    set(IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
    set(IPPROTO_TCP, TCP_USER_TIMEOUT, kUnansweredMilliseconds);
    set(IPPROTO_TCP, TCP_NODELAY, 1);
}

}  // namespace

FrameLink::FrameLink(base::UniqueFd socket) : socket_(std::move(socket)) { watch_connection(socket_.value()); }

FrameLink::FrameLink(base::ProvenConnection connection) : FrameLink(std::move(connection.socket)) {
    sending_.emplace(connection.keys.sending);
    receiving_.emplace(connection.keys.receiving);
}

bool FrameLink::close_when_silent() {
    if (!is_open()) {
        return false;
    }
    const int milliseconds = static_cast<int>(kAnswerTime.count());
    ::setsockopt(socket_.value(), IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
    note_last_arrival();
    const bool is_lost = Clock::now() - last_arrival_ >= kAnswerTime;
    if (is_lost) {
        ::shutdown(socket_.value(), SHUT_RDWR);  // after this call, receive() finds that the connection has ended
    }
    return is_lost;
}

void FrameLink::send(FrameKind kind, std::int32_t value, std::string_view payload) {
    if (!can_send_) {
        return;
    }
    do {
        const std::string_view part = payload.substr(0, kMostPayload);
        payload.remove_prefix(part.size());
        const FrameHeader header{kFrameMagic, kind, value, static_cast<std::uint32_t>(part.size())};
        queue_ += bytes_of_header(header);
        queue_ += part;
        queue_ += sending_ ? sending_->next(bytes_of_header(header), part) : "";
    } while (!payload.empty());
    flush();
}

Status FrameLink::send_descriptors(std::span<const int> fds) {
    const FrameHeader header{kFrameMagic, FrameKind::descriptors, 0, 0};
    std::string bytes(bytes_of_header(header));
    bytes += sending_ ? sending_->next(bytes_of_header(header), "") : "";
    iovec part{bytes.data(), bytes.size()};
    // Before this frame, only the short messages of the handshake were sent. So the socket's send buffer is almost
    // empty, and the whole frame fits into it.
    if (base::send_with_descriptors(socket_.value(), {&part, 1}, fds) != static_cast<ssize_t>(bytes.size())) {
        return system_failure(ErrorCode::internal, "sendmsg");
    }
    return {};
}

/// Notes when something last arrived from the other host: data, an acknowledgement, or an answer to a probe. Call this
/// before a send. The kernel reports the time of the last acknowledgement, but a send changes this time if no data was
/// unacknowledged before the send (seen with Linux 6.18). So the time is used only in two cases: all sent data is
/// acknowledged, or some of it was acknowledged since the last call. For a Unix socket, something always counts as just
/// arrived.
void FrameLink::note_last_arrival() {
    const auto now = Clock::now();
    tcp_info info{};
    socklen_t bytes = sizeof info;
    int unsent = 0;  // includes sent data that is not acknowledged
    if (::getsockopt(socket_.value(), IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
        ::ioctl(socket_.value(), SIOCOUTQ, &unsent) != 0) {
        last_arrival_ = now;
        return;
    }
    const auto note = [this](Clock::time_point arrival) { last_arrival_ = std::max(last_arrival_, arrival); };
    const std::uint64_t acknowledged = sent_bytes_ - static_cast<std::uint64_t>(unsent);
    const bool has_acknowledged = std::exchange(acknowledged_bytes_, acknowledged) != acknowledged;
    note(now - std::chrono::milliseconds(info.tcpi_last_data_recv));
    if (info.tcpi_unacked == 0 || has_acknowledged) {
        note(now - std::chrono::milliseconds(info.tcpi_last_ack_recv));
    }
}

void FrameLink::flush() {
    if (is_open() && !queue_.empty()) {
        note_last_arrival();
    }
    std::size_t sent = 0;
    while (is_open() && sent < queue_.size()) {
        const ssize_t got =
            ::send(socket_.value(), queue_.data() + sent, queue_.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            can_send_ = errno == EAGAIN;
            break;
        }
        sent += static_cast<std::size_t>(got);
        sent_bytes_ += static_cast<std::uint64_t>(got);
    }
    queue_.erase(0, can_send_ ? sent : queue_.size());
}

bool FrameLink::take_frame(std::size_t most_payload, std::vector<Frame>& frames) {
    FrameHeader header;
    if (received_.size() < sizeof header) {
        return false;
    }
    std::memcpy(&header, received_.data(), sizeof header);
    if (header.magic != kFrameMagic || header.bytes > most_payload) {
        close();
        return false;
    }
    const std::size_t bytes = sizeof header + header.bytes;
    if (received_.size() < bytes + code_bytes()) {
        return false;
    }
    Frame frame{header.kind, header.value, received_.substr(sizeof header, header.bytes)};
    const std::string_view code = std::string_view(received_).substr(bytes, code_bytes());
    if (receiving_ && !base::equal_in_constant_time(code, receiving_->next(bytes_of_header(header), frame.payload))) {
        close();
        return false;
    }
    frames.push_back(std::move(frame));
    received_.erase(0, bytes + code_bytes());
    return true;
}

std::vector<Frame> FrameLink::receive(std::size_t most_payload) {
    std::vector<Frame> frames;
    if (!is_open()) {
        return frames;
    }
    std::array<char, kMostPayload> buffer;
    iovec part{buffer.data(), buffer.size()};
    base::Attachments attached;
    const ssize_t got = base::receive_with_descriptors(socket_.value(), {&part, 1}, attached);
    const bool has_ended = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
    if (!attached.fds.empty()) {
        descriptors_ = std::move(attached.fds);
    }
    if (got > 0) {
        received_.append(buffer.data(), static_cast<std::size_t>(got));
    }
    while (take_frame(most_payload, frames)) {
    }
    if (has_ended) {
        close();
    }
    return frames;
}

}  // namespace rueda::launcher
