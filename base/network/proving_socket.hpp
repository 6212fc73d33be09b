// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string_view>

#include "base/security/handshake.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::base {

/// A connection whose other side has proved that it knows the secret of the job.
struct ProvenConnection {
    UniqueFd socket;
    MessageKeys keys;
};

/// Whether the process at the other end may belong to this job. For a Unix socket, the process must have the same user
/// (SO_PEERCRED). For a TCP connection, the result is always true: only the handshake
/// shows whether the process knows the secret.
[[nodiscard]] bool may_be_of_this_job(int socket);

/// Runs the handshake on a connected, non-blocking socket. No function blocks. Until the other side has proved that it
/// knows the secret, the object reads only the bytes of the handshake (at most 80). Until then, the other side's bytes
/// have no influence on what the object sends, except on the object's own proof. Threads: only one thread may use an
/// object.
class ProvingSocket {
public:
    /// `secret` and `purpose`: see Handshake.
    ProvingSocket(UniqueFd socket, HandshakeSide side, std::string_view secret, std::string_view purpose,
                  const Nonce& nonce);

    [[nodiscard]] int fd() const { return socket_.value(); }
    [[nodiscard]] bool is_open() const { return socket_.is_open(); }
    void close() { socket_.reset(); }
    /// Sends and receives what is possible now. Call it once after the construction, and then whenever the socket is
    /// readable, until is_proven(). Closes the socket after a failure; the message says what the other side did.
    [[nodiscard]] Status advance();
    [[nodiscard]] bool is_proven() const { return handshake_.is_proven(); }
    /// Call this only if is_proven() is true. The object must not be used afterwards.
    [[nodiscard]] ProvenConnection take();

private:
    [[nodiscard]] Status send_output();
    [[nodiscard]] Status exchange();

    UniqueFd socket_;
    Handshake handshake_;
};

}  // namespace rueda::base
