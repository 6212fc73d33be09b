// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string_view>

#include "base/security/handshake.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::launcher {

/// A connection whose other side has proved that it knows the secret of the job.
struct ProvenConnection {
    base::UniqueFd socket;
    base::MessageKeys keys;
};

/// Runs the handshake on a connected, non-blocking socket. No function blocks. Before the proof, it reads only the
/// bytes of the handshake (at most 80), and sends nothing that depends on what the other side has sent, except the
/// proof. Threads: only one thread may use an object.
class ProvingSocket {
public:
    /// `secret` is the secret of the job (ControlAddress).
    ProvingSocket(base::UniqueFd socket, base::HandshakeSide side, std::string_view secret, const base::Nonce& nonce);

    [[nodiscard]] int fd() const { return socket_.value(); }
    [[nodiscard]] bool is_open() const { return socket_.is_open(); }
    void close() { socket_.reset(); }
    /// Sends and receives what is possible now. Call it once after the construction, and then whenever the socket is
    /// readable, until is_proven(). Closes the socket after a failure; the message says what the other side did.
    [[nodiscard]] Status advance();
    [[nodiscard]] bool is_proven() const { return handshake_.is_proven(); }
    /// Call this only if is_proven(). The object must not be used afterwards.
    [[nodiscard]] ProvenConnection take();

private:
    [[nodiscard]] Status send_output();
    [[nodiscard]] Status exchange();

    base::UniqueFd socket_;
    base::Handshake handshake_;
};

}  // namespace rueda::launcher
