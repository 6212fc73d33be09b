// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/awaited_message.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace rueda::core {

void publish_awaited_message(base::RankBlock& block, const StallReport::Tensor* message, std::int64_t since_ns) {
    const std::uint64_t word = message != nullptr && message->message ? MessageWord::of(*message->message) : 0;
    const bool is_the_same = block.message_kind.load(std::memory_order_relaxed) == word &&
                             (word == 0 || (block.message_since_ns.load(std::memory_order_relaxed) == since_ns &&
                                            block.message.read() == message->name));
    if (is_the_same) {
        return;
    }
    if (word != 0) {
        block.message_since_ns.store(since_ns, std::memory_order_relaxed);
        block.message.write(message->name);
    }
    block.message_kind.store(word, std::memory_order_release);  // partner: read_awaited_message()
}

std::optional<StallReport::Tensor> read_awaited_message(const base::RankBlock& block, std::int64_t now_ns) {
    // acquire; partner: publish_awaited_message()
    const auto message = MessageWord::message(block.message_kind.load(std::memory_order_acquire));
    if (!message) {
        return std::nullopt;
    }
    const std::int64_t waited = now_ns - block.message_since_ns.load(std::memory_order_relaxed);
    StallReport::Tensor tensor;
    tensor.name = base::printable(block.message.read());
    tensor.seconds = static_cast<double>(std::max<std::int64_t>(waited, 0)) / 1e9;
    tensor.message = message;
    return tensor;
}

StallReport::Tensor with_sides(StallReport::Tensor message, std::int32_t own, std::span<const std::int32_t> ranks) {
    message.ready = {own};
    if (message.message->waits_for_gpu) {
        message.missing = {own};
    } else if (message.message->peer >= 0) {
        message.missing = {message.message->peer};
    } else if (message.message->from_all) {
        message.missing.assign(ranks.begin(), ranks.end());
        std::erase(message.missing, own);
    }
    return message;
}

}  // namespace rueda::core
