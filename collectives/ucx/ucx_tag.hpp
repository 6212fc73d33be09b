// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "collectives/transport.hpp"

namespace rueda::collectives {

/// The tag of a message over UCX, the number by which UCX matches a message with a receive. UCX does not know ranks and
/// ports, so the tag contains them. Bits 56 to 62 are the port's channel, bits 32 to 55 the port's process set, and
/// bits 0 to 31 the sender's rank.
using UcxTag = std::uint64_t;

/// Bit 63 marks the messages of BulkTransport::barrier() and finish(), which belong to no port.
inline constexpr UcxTag kOwnMessages = UcxTag{1} << 63U;
inline constexpr UcxTag kWholeTag = ~UcxTag{0};
/// The bits of a tag that do not depend on the sender.
inline constexpr UcxTag kAnySender = kWholeTag << 32U;

[[nodiscard]] inline UcxTag tag_of(Transport::Port port, int sender) {
    RUEDA_ASSERT(port.set < Transport::kMostSets && sender >= 0);
    return (static_cast<UcxTag>(port.channel) << 56U) | (UcxTag{port.set} << 32U) | static_cast<std::uint32_t>(sender);
}

[[nodiscard]] constexpr UcxTag barrier_tag(int sender) { return kOwnMessages | static_cast<std::uint32_t>(sender); }

/// Returns the sender in a tag. The tag came from another process, so the number may not be a rank of the job.
[[nodiscard]] constexpr std::uint32_t sender_of(UcxTag tag) { return static_cast<std::uint32_t>(tag); }

}  // namespace rueda::collectives
