// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/security/sha256.hpp"

namespace rueda::base {

/// Computes the codes of the messages in one direction of a connection. A code depends on the key, on the number of the
/// message, and on all its bytes. So a message that was changed, left out, repeated or reflected is noticed. Threads:
/// only one thread may use an object.
class MessageCodes {
public:
    /// The length of a code in bytes: HMAC-SHA-256 cut to 128 bits.
    static constexpr std::size_t kBytes = 16;

    explicit MessageCodes(const Digest& key) : keyed_(bytes_of(key)) {}
    /// Returns the code of the next message.
    [[nodiscard]] std::string next(std::string_view header, std::string_view payload);

private:
    HmacSha256 keyed_;
    std::uint64_t number_ = 0;
};

}  // namespace rueda::base
