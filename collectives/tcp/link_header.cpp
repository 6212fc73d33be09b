// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/tcp/link_header.hpp"

#include <cstring>
#include <type_traits>

namespace rueda::collectives {

namespace {

/// The letters "rdl" and the version of the format. A host with another byte order sends a different number, so its
/// messages are refused.
constexpr std::uint32_t kLinkMagic = 0x72646C01;

struct RawLinkHeader {
    std::uint32_t magic = kLinkMagic;
    std::uint8_t kind = 0;
    std::uint8_t channel = 0;
    std::uint16_t zero = 0;
    std::uint32_t set = 0;
    std::uint32_t bytes = 0;
};
static_assert(sizeof(RawLinkHeader) == kLinkHeaderBytes && std::is_trivially_copyable_v<RawLinkHeader>);

/// Only the leaders' own messages go over these connections. The other channels carry bulk data.
bool is_channel_of_leaders(std::uint8_t channel) {
    return channel == static_cast<std::uint8_t>(Transport::Channel::control) ||
           channel == static_cast<std::uint8_t>(Transport::Channel::diagnostics);
}

}  // namespace

LinkHeaderBytes encode(const LinkHeader& header) {
    RawLinkHeader raw;
    raw.kind = static_cast<std::uint8_t>(header.kind);
    raw.channel = static_cast<std::uint8_t>(header.port.channel);
    raw.set = header.port.set;
    raw.bytes = header.bytes;
    LinkHeaderBytes bytes;
    std::memcpy(bytes.data(), &raw, sizeof raw);
    return bytes;
}

Result<LinkHeader> parse_link_header(std::string_view bytes, std::size_t most_bytes) {
    RawLinkHeader raw;
    const auto kind_greeting = static_cast<std::uint8_t>(LinkHeader::Kind::greeting);
    const auto kind_farewell = static_cast<std::uint8_t>(LinkHeader::Kind::farewell);
    if (bytes.size() != sizeof raw) {
        return failure(ErrorCode::internal, "a header has {} bytes; expected {}", bytes.size(), sizeof raw);
    }
    std::memcpy(&raw, bytes.data(), sizeof raw);
    const bool is_known = raw.magic == kLinkMagic && raw.zero == 0 && raw.kind >= kind_greeting &&
                          raw.kind <= kind_farewell && is_channel_of_leaders(raw.channel) &&
                          raw.set < Transport::kMostSets;
    if (!is_known) {
        return Status(ErrorCode::internal, "these bytes are no header of a leader's message");
    }
    if (raw.bytes > most_bytes) {
        return failure(ErrorCode::internal, "a header announces {} bytes; expected at most {}", raw.bytes, most_bytes);
    }
    return LinkHeader{
        static_cast<LinkHeader::Kind>(raw.kind), {static_cast<Transport::Channel>(raw.channel), raw.set}, raw.bytes};
}

}  // namespace rueda::collectives
