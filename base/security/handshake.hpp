// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/security/sha256.hpp"
#include "base/status.hpp"

namespace rueda::base {

/// The two sides of a connection: the process that called connect(), and the process that called accept().
enum class HandshakeSide : std::uint8_t { connecting = 1, accepting = 2 };

/// A random number that is used in one handshake only.
using Nonce = std::array<std::uint8_t, 32>;
[[nodiscard]] Result<Nonce> random_nonce();

/// Returns a secret of 256 bits that depends on `secret`, `purpose` and `random`. A process that does not know `secret`
/// cannot compute it, even if it knows `purpose` and `random`. `purpose` must not contain a line break.
[[nodiscard]] std::string derive_secret(std::string_view secret, std::string_view purpose, std::string_view random);

/// The keys with which the two sides of a proven connection authenticate their messages. Each direction has a key of
/// its own.
struct MessageKeys {
    Digest sending{};
    Digest receiving{};
};

/// One side of the handshake by which two processes prove to each other that they know the same secret. The secret
/// itself is not sent. The object does no input or output: its caller sends take_output() and calls receive() with the
/// bytes that arrive. docs/design/0021-handshake.md describes the messages:
///
///     opening  connecting → accepting: header and nonce
///     answer   accepting → connecting: header, nonce and proof
///     proof    connecting → accepting
///
/// All messages have fixed lengths. A proof is an HMAC-SHA-256 code over version, side, both nonces and the purpose, so
/// a proof from another connection, from the wrong side, or for another purpose is refused. Threads: only one thread
/// may use an object.
class Handshake {
public:
    static constexpr std::size_t kHeaderBytes = 16;
    static constexpr std::size_t kOpeningBytes = kHeaderBytes + std::tuple_size_v<Nonce>;
    static constexpr std::size_t kAnswerBytes = kOpeningBytes + kDigestBytes;
    static constexpr std::size_t kProofBytes = kDigestBytes;

    /// `purpose` is a short text such as "ruedarun". Both sides must use the same text. `nonce` must be new
    /// (random_nonce()).
    Handshake(HandshakeSide side, std::string_view secret, std::string_view purpose, const Nonce& nonce);

    /// Returns the bytes that must be sent now; empty if there are none.
    [[nodiscard]] std::string take_output() { return std::exchange(output_, {}); }
    /// Returns how many bytes of the other side's next message are still missing; 0 after the last message and after a
    /// failure. Callers must not read more bytes than this, because the bytes that follow do not belong to the
    /// handshake.
    [[nodiscard]] std::size_t wanted() const;
    /// Takes at most wanted() bytes from the other side. After a failure, the connection must be closed.
    [[nodiscard]] Status receive(std::string_view bytes);
    /// Whether the other side has proved that it knows the secret.
    [[nodiscard]] bool is_proven() const { return step_ == Step::proven; }
    /// Call this only if is_proven() is true.
    [[nodiscard]] MessageKeys keys() const;

private:
    enum class Step : std::uint8_t { opening, answer, proof, proven, failed };

    [[nodiscard]] Digest code(std::string_view label, HandshakeSide of) const;
    [[nodiscard]] bool may_be_of_rueda() const;
    [[nodiscard]] Status take_message();
    [[nodiscard]] Status check_proof(std::string_view proof) const;

    HandshakeSide side_;
    std::string secret_;
    std::string purpose_;
    Nonce own_nonce_;
    Nonce other_nonce_{};
    Step step_;  ///< the message that this side waits for
    std::string received_;
    std::string output_;
};

}  // namespace rueda::base
