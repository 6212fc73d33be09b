// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/network/proving_socket.hpp"
#include "base/security/message_codes.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "launcher/supervisor/supervisor_protocol.hpp"

namespace rueda::launcher {

/// A message between ruedarun and a supervisor (the parent of a rank).
struct Frame {
    FrameKind kind = FrameKind::hello;
    std::int32_t value = 0;
    std::string payload;
};

/// A connection that carries frames: a Unix socket to a process of this host, or a TCP connection. No function blocks.
/// Frames that cannot be sent now go into a queue. If the other side has proved that it knows the secret of the job,
/// each frame ends with an authentication code. When a frame with a wrong code arrives, the link is closed. Threads:
/// only one thread may use an object.
class FrameLink {
public:
    /// The largest payload of one frame, in bytes. A longer text is sent in several frames.
    static constexpr std::size_t kMostPayload = std::size_t{64} << 10;
    /// If the queue is longer than this number of bytes, senders must pause if they can, for example the sender of a
    /// program's output.
    static constexpr std::size_t kLongQueue = std::size_t{256} << 10;

    /// The time limit of close_when_silent(). Data is acknowledged and probes are answered by the kernel of the other
    /// host, not by the process there. So even a busy process causes no delay. The limit allows one lost probe, or
    /// three retransmissions.
    static constexpr std::chrono::milliseconds kAnswerTime{2500};

    FrameLink() = default;
    /// Makes a link whose frames have no authentication codes. Tests use it to look at single frames.
    explicit FrameLink(base::UniqueFd socket);
    explicit FrameLink(base::ProvenConnection connection);

    [[nodiscard]] int fd() const { return socket_.value(); }
    [[nodiscard]] bool is_open() const { return socket_.is_open(); }
    void close() { socket_.reset(); }
    void send(FrameKind kind, std::int32_t value, std::string_view payload = {});
    /// Sends a frame of the kind `descriptors` together with open files. This works only over a Unix socket, and only
    /// before the first send().
    [[nodiscard]] Status send_descriptors(std::span<const int> fds);
    /// From this call on, the link closes if the other host does not acknowledge data within kAnswerTime. The limit
    /// also applies to data that was sent before the call. If the other host has already been silent for this time, the
    /// function shuts the connection down at once, and returns true. For a Unix socket, the call has no effect.
    bool close_when_silent();
    /// Sends as much of the queue as possible without blocking. If sending fails, all frames in the queue and all later
    /// frames are dropped. The link stays open, because frames from the other process may still arrive.
    void flush();
    [[nodiscard]] bool has_queue() const { return !queue_.empty(); }
    [[nodiscard]] bool is_congested() const { return queue_.size() > kLongQueue; }
    /// Returns the frames that have arrived completely. Closes the link if the connection has ended, or if the bytes
    /// are not a frame with at most `most_payload` bytes of payload.
    [[nodiscard]] std::vector<Frame> receive(std::size_t most_payload = kMostPayload);
    /// Returns the open files that came with the last frame of the kind `descriptors`.
    [[nodiscard]] std::vector<base::UniqueFd> take_descriptors() { return std::exchange(descriptors_, {}); }

private:
    using Clock = std::chrono::steady_clock;

    void note_last_arrival();
    [[nodiscard]] bool take_frame(std::size_t most_payload, std::vector<Frame>& frames);
    /// Returns the length of the authentication code at the end of each frame.
    [[nodiscard]] std::size_t code_bytes() const { return receiving_ ? base::MessageCodes::kBytes : 0; }

    base::UniqueFd socket_;
    std::optional<base::MessageCodes> sending_;
    std::optional<base::MessageCodes> receiving_;
    std::string queue_;
    std::string received_;
    std::vector<base::UniqueFd> descriptors_;
    bool can_send_ = true;
    Clock::time_point last_arrival_ = Clock::now();  ///< see note_last_arrival()
    std::uint64_t sent_bytes_ = 0;
    std::uint64_t acknowledged_bytes_ = 0;  ///< how many of the sent bytes were acknowledged at the last call
};

}  // namespace rueda::launcher
