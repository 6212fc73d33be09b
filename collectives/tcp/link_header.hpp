// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.hpp"
#include "collectives/transport.hpp"

namespace rueda::collectives {

/// The first 16 bytes of a message on a connection between two leaders. Then come the content and an authentication
/// code (base::MessageCodes).
struct LinkHeader {
    enum class Kind : std::uint8_t {
        greeting = 1,  ///< The first message of the side that opened the connection. It contains that side's rank in
                       ///< the job.
        message = 2,   ///< a message on `port`
        farewell = 3,  ///< the last message of a leader that leaves the job in order
    };
    Kind kind = Kind::message;
    Transport::Port port{Transport::Channel::control};
    std::uint32_t bytes = 0;  ///< the length of the content
};

inline constexpr std::size_t kLinkHeaderBytes = 16;
using LinkHeaderBytes = std::array<char, kLinkHeaderBytes>;

[[nodiscard]] LinkHeaderBytes encode(const LinkHeader& header);
/// Parses the first kLinkHeaderBytes bytes that the other process sent. Fails if the bytes cannot come from a leader,
/// or if they announce more than `most_bytes` bytes of content.
[[nodiscard]] Result<LinkHeader> parse_link_header(std::string_view bytes, std::size_t most_bytes);

}  // namespace rueda::collectives
