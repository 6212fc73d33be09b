// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "collectives/transport.hpp"

namespace rueda::collectives {

/// The tag of a message over UCX. UCX knows nothing of ranks and ports, so the tag contains both: the channel in bits
/// 56 to 62, the process set in bits 32 to 55, and the sender in bits 0 to 31.
using UcxTag = std::uint64_t;

/// Bit 63 marks the messages of BulkTransport::barrier(), which belong to no port.
inline constexpr UcxTag kOwnMessages = UcxTag{1} << 63U;
inline constexpr UcxTag kWholeTag = ~UcxTag{0};
/// The part of a tag that is the same for all senders.
inline constexpr UcxTag kAnySender = kWholeTag << 32U;

[[nodiscard]] inline UcxTag tag_of(Transport::Port port, int sender) {
    RUEDA_ASSERT(port.set < Transport::kMostSets && sender >= 0);
    return (static_cast<UcxTag>(port.channel) << 56U) | (UcxTag{port.set} << 32U) | static_cast<std::uint32_t>(sender);
}

[[nodiscard]] constexpr UcxTag barrier_tag(int sender) { return kOwnMessages | static_cast<std::uint32_t>(sender); }

/// The sender in a tag that came from another process, which may be no rank.
[[nodiscard]] constexpr std::uint32_t sender_of(UcxTag tag) { return static_cast<std::uint32_t>(tag); }

}  // namespace rueda::collectives
