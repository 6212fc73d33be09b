// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>

#include "collectives/host/socket_messages.hpp"
#include "collectives/host/unix_socket.hpp"
#include "collectives/interruption.hpp"

namespace rueda::collectives {

struct Frame {
    FrameHeader header;
    Bytes body;
};

/// One frame on its way in, read as far as it has come. Failures read as predicates ("has closed …"): the caller
/// knows whose they are. Threads: one at a time.
class FrameReceiver {
public:
    /// Does not block. True once the frame is complete.
    [[nodiscard]] Result<bool> advance(int socket);
    [[nodiscard]] Frame take();

private:
    std::array<std::byte, kFrameHeaderBytes> header_bytes_{};
    std::size_t header_received_ = 0;
    std::size_t body_received_ = 0;
    Frame frame_;
};

enum class SendEnd {
    sent,
    timed_out,
    /// The other side has spoken, or gone, before it took everything: what it said may be read.
    interrupted,
};

/// Blocks until all is sent, until the deadline, or, if `until_input`, until the other side sends something.
[[nodiscard]] Result<SendEnd> send_bytes(int socket, std::span<const std::byte> bytes, Deadline deadline,
                                         bool until_input);

/// The header and the body, in this order.
[[nodiscard]] Result<SendEnd> send_frame(int socket, FrameHeader header, std::span<const std::byte> body,
                                         Deadline deadline, bool until_input);

/// False when the deadline passed first. Nothing is asked while something can be read.
[[nodiscard]] Result<bool> wait_for_answer(int socket, Deadline deadline, const Interruption& interruption, int rank,
                                           int size);

/// Reads into `bytes` what is there; does not block. 0 if nothing is.
[[nodiscard]] Result<std::size_t> receive_some(int socket, std::span<std::byte> bytes);

}  // namespace rueda::collectives
