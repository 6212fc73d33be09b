// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "base/security/handshake.hpp"

/// Fixed secrets, nonces and keys, so that a seed can contain messages that the fuzz target accepts.
namespace rueda::fuzz {

inline constexpr const char* kFuzzSecret = "d2a84f4b8b650937ec8f73cd8be2c74a";
inline constexpr const char* kFuzzPurpose = "ruedarun and supervisor";

inline base::Handshake handshake_of(base::HandshakeSide side) {
    base::Nonce nonce;
    nonce.fill(static_cast<std::uint8_t>(side));
    return {side, kFuzzSecret, kFuzzPurpose, nonce};
}

struct FuzzKeys {
    base::MessageKeys sender;
    base::MessageKeys receiver;
};

inline FuzzKeys fuzz_keys() {
    FuzzKeys keys;
    keys.sender.sending.fill(1);
    keys.sender.receiving.fill(2);
    keys.receiver = {keys.sender.receiving, keys.sender.sending};
    return keys;
}

}  // namespace rueda::fuzz
