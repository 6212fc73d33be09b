// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "core/negotiation/log.hpp"

namespace rueda::core {

/// Describes where a batch that begins at a given position of the log would end now.
struct BatchEnd {
    std::uint64_t end = 0;
    /// Whether the batch cannot grow any more. This is so if the next entry is of another kind, or if the threshold is
    /// reached.
    bool complete = false;
};

[[nodiscard]] constexpr bool is_call(EntryKind kind) {
    return kind == EntryKind::call || kind == EntryKind::first_call || kind == EntryKind::changed_call;
}

/// Decides which entries form one batch. Consecutive allreduces form one batch, up to `threshold_bytes`. A larger
/// tensor is a batch of its own. A threshold of 0 means no fusion. Adasums form batches only with other adasums. An
/// operation of any other kind is a batch of its own (fusion_of()). The result depends only on the entries, so every
/// rank finds the same end. The entry at `begin` must be a published call.
template <class Atomics>
[[nodiscard]] BatchEnd propose_batch_end(const Log<Atomics>& log, std::uint64_t begin, std::uint64_t threshold_bytes) {
    const auto first = log.read(begin);
    if (first.fusion == Fusion::alone) {
        return {begin + 1, true};
    }
    std::uint64_t bytes = first.bytes;
    std::uint64_t end = begin + 1;
    while (end - begin < kBatchEntries && log.is_published(end)) {
        const auto next = log.read(end);
        if (!is_call(next.kind) || next.fusion != first.fusion || bytes + next.bytes > threshold_bytes) {
            return {end, true};
        }
        bytes += next.bytes;
        ++end;
    }
    return {end, end - begin == kBatchEntries || bytes >= threshold_bytes};
}

}  // namespace rueda::core
