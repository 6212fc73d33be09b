// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/security/handshake.hpp"

#include <sys/random.h>

#include <algorithm>

#include "base/assert.hpp"

namespace rueda::base {

namespace {

/// The header that each side sends consists of this text, the version, the sender's side, and zeros.
constexpr std::string_view kMark = "rueda-proof\n";
constexpr std::uint8_t kHandshakeVersion = 1;
constexpr std::size_t kVersionAt = kMark.size();
constexpr std::size_t kSideAt = kVersionAt + 1;
static_assert(kSideAt < Handshake::kHeaderBytes);

/// A code is computed over a text that begins with one of these labels. The labels have equal lengths, so no text can
/// begin with two of them.
constexpr std::string_view kProofLabel = "rueda proof 1\n";
constexpr std::string_view kKeyLabel = "rueda key   1\n";
constexpr std::string_view kDerivedLabel = "rueda child 1\n";
static_assert(kProofLabel.size() == kKeyLabel.size() && kProofLabel.size() == kDerivedLabel.size());

std::string_view nonce_text(const Nonce& nonce) { return {reinterpret_cast<const char*>(nonce.data()), nonce.size()}; }

HandshakeSide other_side(HandshakeSide side) {
    return side == HandshakeSide::connecting ? HandshakeSide::accepting : HandshakeSide::connecting;
}

std::string handshake_header(HandshakeSide side) {
    std::string text(kMark);
    text += static_cast<char>(kHandshakeVersion);
    text += static_cast<char>(side);
    text.resize(Handshake::kHeaderBytes, '\0');
    return text;
}

/// Checks a header that was received. `expected` is the side that must have sent it.
Status check_header(std::string_view header, HandshakeSide expected) {
    if (!header.starts_with(kMark)) {
        return failure(ErrorCode::invalid_argument, "it is no process of Rueda");
    }
    if (const auto version = static_cast<std::uint8_t>(header[kVersionAt]); version != kHandshakeVersion) {
        return failure(ErrorCode::invalid_argument,
                       "it has version {} of the handshake, expected {}: run the same build of Rueda on all hosts",
                       version, kHandshakeVersion);
    }
    if (header != handshake_header(expected)) {
        return failure(ErrorCode::invalid_argument, "it has sent a handshake of the wrong side");
    }
    return {};
}

}  // namespace

Result<Nonce> random_nonce() {
    Nonce nonce{};
    if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
        return system_failure(ErrorCode::internal, "getrandom");
    }
    return nonce;
}

std::string derive_secret(std::string_view secret, std::string_view purpose, std::string_view random) {
    RUEDA_ASSERT(purpose.find('\n') == std::string_view::npos);
    HmacSha256 hmac(secret);
    hmac.add(kDerivedLabel);
    hmac.add(purpose);
    hmac.add("\n");  // marks the end of `purpose`, so that another `purpose` or `random` always gives another text
    hmac.add(random);
    return std::string(bytes_of(hmac.finish()));
}

Handshake::Handshake(HandshakeSide side, std::string_view secret, std::string_view purpose, const Nonce& nonce)
    : side_(side),
      secret_(secret),
      purpose_(purpose),
      own_nonce_(nonce),
      step_(side == HandshakeSide::connecting ? Step::answer : Step::opening) {
    if (side == HandshakeSide::connecting) {
        output_ = handshake_header(side_) + std::string(nonce_text(own_nonce_));
    }
}

std::size_t Handshake::wanted() const {
    switch (step_) {
        case Step::opening:
            return kOpeningBytes - received_.size();
        case Step::answer:
            return kAnswerBytes - received_.size();
        case Step::proof:
            return kProofBytes - received_.size();
        case Step::proven:
        case Step::failed:
            break;
    }
    return 0;
}

Status Handshake::receive(std::string_view bytes) {
    RUEDA_ASSERT(bytes.size() <= wanted());
    received_ += bytes;
    if (bytes.empty() || (wanted() != 0 && may_be_of_rueda())) {
        return {};
    }
    Status status = take_message();
    if (!status.is_ok()) {
        step_ = Step::failed;
        output_.clear();
    }
    received_.clear();
    return status;
}

/// Whether the bytes so far may be the beginning of a message. A program that speaks another protocol may send fewer
/// bytes than our first message has, and then wait for an answer. Therefore this side does not wait for a whole
/// message: it refuses the other side at the first wrong byte.
bool Handshake::may_be_of_rueda() const {
    return step_ == Step::proof || kMark.substr(0, received_.size()) == received_.substr(0, kMark.size());
}

Status Handshake::take_message() {
    if (step_ == Step::proof) {
        RUEDA_RETURN_IF_FAILED(check_proof(received_));
        step_ = Step::proven;
        return {};
    }
    const std::string_view message = received_;
    RUEDA_RETURN_IF_FAILED(check_header(message.substr(0, kHeaderBytes), other_side(side_)));
    std::copy_n(message.begin() + kHeaderBytes, other_nonce_.size(), other_nonce_.begin());
    if (step_ == Step::opening) {
        output_ = handshake_header(side_);
        output_ += nonce_text(own_nonce_);
        output_ += bytes_of(code(kProofLabel, side_));
        step_ = Step::proof;
        return {};
    }
    RUEDA_RETURN_IF_FAILED(check_proof(message.substr(kOpeningBytes)));
    output_ = bytes_of(code(kProofLabel, side_));
    step_ = Step::proven;
    return {};
}

Status Handshake::check_proof(std::string_view proof) const {
    return equal_in_constant_time(proof, bytes_of(code(kProofLabel, other_side(side_))))
               ? Status()
               : failure(ErrorCode::invalid_argument, "it does not know the secret of this job");
}

/// Computes a code over everything that identifies this handshake. The parameter `of` is the side for whose
/// proof or key the code is.
Digest Handshake::code(std::string_view label, HandshakeSide of) const {
    const bool is_connecting = side_ == HandshakeSide::connecting;
    HmacSha256 hmac(secret_);
    hmac.add(label);
    hmac.add(handshake_header(of));
    hmac.add(nonce_text(is_connecting ? own_nonce_ : other_nonce_));
    hmac.add(nonce_text(is_connecting ? other_nonce_ : own_nonce_));
    // All parts except the purpose have fixed lengths, so the texts of two different handshakes always differ.
    hmac.add(purpose_);
    return hmac.finish();
}

MessageKeys Handshake::keys() const {
    RUEDA_ASSERT(is_proven());
    return {code(kKeyLabel, side_), code(kKeyLabel, other_side(side_))};
}

}  // namespace rueda::base
