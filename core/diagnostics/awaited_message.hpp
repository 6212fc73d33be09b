// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>

#include "base/shared_memory/control_block.hpp"
#include "core/diagnostics/stall_report.hpp"

namespace rueda::core {

/// A message as one word of the rank's block (base::RankBlock::message_kind): the lower half is the peer, the upper
/// half are flags. 0 means no message.
class MessageWord {
public:
    [[nodiscard]] static std::uint64_t of(const StallReport::Message& message) {
        return kPresent | (message.sends ? kSends : 0) | (message.receives_too ? kReceivesToo : 0) |
               static_cast<std::uint32_t>(message.peer);
    }
    [[nodiscard]] static std::optional<StallReport::Message> message(std::uint64_t word) {
        if ((word & kPresent) == 0) {
            return std::nullopt;
        }
        return StallReport::Message{(word & kSends) != 0, (word & kReceivesToo) != 0,
                                    static_cast<std::int32_t>(static_cast<std::uint32_t>(word))};
    }

private:
    static constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;
    static constexpr std::uint64_t kSends = std::uint64_t{1} << 62;
    static constexpr std::uint64_t kReceivesToo = std::uint64_t{1} << 61;
};

/// Tells the other ranks of the host for which message this rank has waited longest, or that it waits for none. Called
/// by the rank's background thread. Afterwards any rank may read it.
void publish_awaited_message(base::RankBlock& block, const StallReport::Tensor* message, std::int64_t since_ns);
/// Reads the message that publish_awaited_message() has published. Any thread.
[[nodiscard]] std::optional<StallReport::Tensor> read_awaited_message(const base::RankBlock& block,
                                                                      std::int64_t now_ns);

}  // namespace rueda::core
