// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/shared_memory/control_block.hpp"
#include "core/diagnostics/stall_report.hpp"

namespace rueda::core {

/// How a send or a receive is packed into one word of the rank's block (base::RankBlock::message_kind). The lower half
/// of the word is the peer; the upper half contains flags. 0 means no message.
class MessageWord {
public:
    [[nodiscard]] static std::uint64_t of(const StallReport::Message& message) {
        return kPresent | (message.sends ? kSends : 0) | (message.receives_too ? kReceivesToo : 0) |
               (message.from_all ? kFromAll : 0) | (message.is_late ? kIsLate : 0) |
               (message.waits_for_gpu ? kWaitsForGpu : 0) | static_cast<std::uint32_t>(message.peer);
    }
    [[nodiscard]] static std::optional<StallReport::Message> message(std::uint64_t word) {
        if ((word & kPresent) == 0) {
            return std::nullopt;
        }
        return StallReport::Message{.sends = (word & kSends) != 0,
                                    .receives_too = (word & kReceivesToo) != 0,
                                    .peer = static_cast<std::int32_t>(static_cast<std::uint32_t>(word)),
                                    .from_all = (word & kFromAll) != 0,
                                    .is_late = (word & kIsLate) != 0,
                                    .waits_for_gpu = (word & kWaitsForGpu) != 0};
    }

private:
    static constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;
    static constexpr std::uint64_t kSends = std::uint64_t{1} << 62;
    static constexpr std::uint64_t kReceivesToo = std::uint64_t{1} << 61;
    static constexpr std::uint64_t kFromAll = std::uint64_t{1} << 60;
    static constexpr std::uint64_t kIsLate = std::uint64_t{1} << 59;
    static constexpr std::uint64_t kWaitsForGpu = std::uint64_t{1} << 58;
};

/// Publishes the message for which this rank has waited longest, or that there is none. Only this rank's background
/// thread calls this function. Any rank of the host may then read the description of the message.
void publish_awaited_message(base::RankBlock& block, const StallReport::Tensor* message, std::int64_t since_ns);
/// Reads the message that publish_awaited_message() has published. Any thread.
[[nodiscard]] std::optional<StallReport::Tensor> read_awaited_message(const base::RankBlock& block,
                                                                      std::int64_t now_ns);
/// Completes an entry of a report: returns `message` (the result of read_awaited_message()) with its lists `ready` and
/// `missing`. Rank `own` waits for the message, so it is in `ready`. If the other side is one rank, that rank counts as
/// missing. If the message is a receive from any rank, there are two cases. If all other ranks of `ranks` can send the
/// message, all these ranks count as missing. If only the members of a smaller process set can send it, no rank counts
/// as missing, because only rank `own` knows that set. If the message waits for the GPU of rank `own`, rank `own`
/// counts as missing.
[[nodiscard]] StallReport::Tensor with_sides(StallReport::Tensor message, std::int32_t own,
                                             std::span<const std::int32_t> ranks);

}  // namespace rueda::core
