// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "core/negotiation/log.hpp"

namespace rueda::core {

/// The position at which a batch could end now. The batch begins at a given position of the log.
struct BatchEnd {
    std::uint64_t end = 0;
    bool complete = false;  ///< nothing more would join: the next entry is of another kind, or the threshold is met
};

[[nodiscard]] constexpr bool is_call(EntryKind kind) {
    return kind == EntryKind::call || kind == EntryKind::first_call || kind == EntryKind::changed_call;
}

/// Allreduces that are published one after the other go together, up to `threshold_bytes`. A larger tensor goes alone,
/// and a threshold of 0 means no fusion. Adasums go together with adasums only, and other operations go alone
/// (fusion_of()). Every rank finds the same end, because the entries decide alone. The entry at `begin` is a published
/// call.
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
