// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "launcher/supervisor/supervisor_protocol.hpp"

namespace rueda::launcher {

/// One message between ruedarun and a supervisor.
struct Frame {
    FrameKind kind = FrameKind::hello;
    std::int32_t value = 0;
    std::string payload;
};

/// A connection that carries frames: a Unix socket to a process of this host, or a TCP connection. No function blocks;
/// what cannot be sent now is queued. Threads: one.
class FrameLink {
public:
    /// The largest payload of one frame. A longer text is sent in several frames.
    static constexpr std::size_t kMostPayload = std::size_t{64} << 10;
    /// If the queue is longer than this, a sender that can wait (the output of a program) must wait.
    static constexpr std::size_t kLongQueue = std::size_t{256} << 10;

    /// For expect_answers(). The kernel of the other host acknowledges, so a busy process does not delay it. A network
    /// that is merely congested gets time for three retransmissions.
    static constexpr std::chrono::milliseconds kAnswerTime{2000};

    FrameLink() = default;
    explicit FrameLink(base::UniqueFd socket);

    [[nodiscard]] int fd() const { return socket_.value(); }
    [[nodiscard]] bool is_open() const { return socket_.is_open(); }
    void close() { socket_.reset(); }
    void send(FrameKind kind, std::int32_t value, std::string_view payload = {});
    /// Sends a frame `descriptors` that takes these open files along. Only over a Unix socket, and only before the
    /// first send().
    [[nodiscard]] Status send_descriptors(std::span<const int> fds);
    /// From now on the link is closed if the other host does not acknowledge what was sent within kAnswerTime. That
    /// counts for what was sent before as well. It changes nothing on a Unix socket.
    void expect_answers() const;
    /// Sends as much of the queue as is possible without blocking. If that fails, this and all later frames are
    /// dropped. The link stays open then, because frames that the other process sent before may still wait to be
    /// received.
    void flush();
    [[nodiscard]] bool has_queue() const { return !queue_.empty(); }
    [[nodiscard]] bool is_congested() const { return queue_.size() > kLongQueue; }
    /// Returns the frames that have arrived whole. Closes the link if the connection has ended, or if the bytes are not
    /// a frame with at most `most_payload` bytes.
    [[nodiscard]] std::vector<Frame> receive(std::size_t most_payload = kMostPayload);
    /// The open files that arrived last.
    [[nodiscard]] std::vector<base::UniqueFd> take_descriptors() { return std::exchange(descriptors_, {}); }

private:
    [[nodiscard]] bool take_frame(std::size_t most_payload, std::vector<Frame>& frames);

    base::UniqueFd socket_;
    std::string queue_;
    std::string received_;
    std::vector<base::UniqueFd> descriptors_;
    bool can_send_ = true;
};

}  // namespace rueda::launcher
