// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <optional>
#include <utility>

#include "base/network/proving_socket.hpp"
#include "base/security/message_codes.hpp"
#include "collectives/host/sockets/socket_messages.hpp"
#include "collectives/host/sockets/unix_socket.hpp"
#include "collectives/interruption.hpp"

namespace rueda::collectives {

struct Frame {
    FrameHeader header;
    Bytes body;
};

/// A connection between rank 0 and another rank. Within a host it is a Unix socket. Between hosts it is a TCP
/// connection, on which both sides have proved that they know the secret of the job. On a TCP connection, each message
/// ends with an authentication code. If a message was changed on its way, the receiver finds that the code is wrong
/// (docs/design/0026-rendezvous-without-mpi.md).
class FrameSocket {
public:
    FrameSocket() = default;
    explicit FrameSocket(base::UniqueFd socket) : socket_(std::move(socket)) {}
    explicit FrameSocket(base::ProvenConnection connection);

    [[nodiscard]] int fd() const { return socket_.value(); }
    [[nodiscard]] bool is_open() const { return socket_.is_open(); }
    void close() { socket_.reset(); }
    /// The length of the authentication code that follows each message, in bytes. 0 if messages have no codes.
    [[nodiscard]] std::size_t code_bytes() const { return receiving_ ? base::MessageCodes::kBytes : 0; }
    /// Returns the authentication code of the message that is sent next. Empty if messages have no codes.
    [[nodiscard]] Bytes code_to_send(std::span<const std::byte> header, std::span<const std::byte> body);
    /// Fails if `code` is not the right authentication code for the message that was just received.
    [[nodiscard]] Status check_code(std::span<const std::byte> header, std::span<const std::byte> body,
                                    std::span<const std::byte> code);

private:
    base::UniqueFd socket_;
    std::optional<base::MessageCodes> sending_;
    std::optional<base::MessageCodes> receiving_;
};

/// A frame that is being received, with the bytes that have arrived. Only the caller knows which rank sends the frame.
/// Error texts therefore begin without a subject ("has closed …"), and the caller puts the rank's number in front.
/// Threads: any thread, but only one at a time.
class FrameReceiver {
public:
    /// Receives the available bytes without blocking. Returns true when the frame is complete and its code is right.
    [[nodiscard]] Result<bool> advance(FrameSocket& socket);
    [[nodiscard]] Frame take();

private:
    std::array<std::byte, kFrameHeaderBytes> header_bytes_{};
    std::size_t header_received_ = 0;
    std::size_t body_received_ = 0;
    std::array<std::byte, base::MessageCodes::kBytes> code_{};
    std::size_t code_received_ = 0;
    Frame frame_;
};

enum class SendEnd {
    sent,
    timed_out,
    /// The other side sent bytes or closed the connection before this side had sent all its bytes. The caller can now
    /// read the bytes that arrived, if there are any.
    interrupted,
};

/// Blocks until everything is sent or the deadline passes. If `until_input` is true, the function also returns when the
/// other side sends something.
[[nodiscard]] Result<SendEnd> send_bytes(int socket, std::span<const std::byte> bytes, Deadline deadline,
                                         bool until_input);

/// Sends the header, then the body, then the code if messages on this connection have codes.
[[nodiscard]] Result<SendEnd> send_frame(FrameSocket& socket, FrameHeader header, std::span<const std::byte> body,
                                         Deadline deadline, bool until_input);

/// Waits until an answer can be read. Returns false if the deadline passes first. `interruption` is checked only while
/// there is no answer.
[[nodiscard]] Result<bool> wait_for_answer(int socket, Deadline deadline, const Interruption& interruption, int rank,
                                           int size);

/// Reads the available bytes into `bytes` without blocking. Returns the number of these bytes, which may be 0.
[[nodiscard]] Result<std::size_t> receive_some(int socket, std::span<std::byte> bytes);

}  // namespace rueda::collectives
