// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "collectives/operation.hpp"
#include "core/negotiation/log.hpp"

namespace rueda::core {

/// Where the batch that begins at a log position could end now.
struct BatchEnd {
    std::uint64_t end = 0;
    /// Nothing more would join: the next entry is another operation, or the threshold is reached.
    bool complete = false;
};

[[nodiscard]] constexpr bool is_call(EntryKind kind) {
    return kind == EntryKind::call || kind == EntryKind::first_call || kind == EntryKind::changed_call;
}

/// Allreduces that are published one after the other are executed together, up to `threshold_bytes`. A larger tensor is
/// executed alone; 0 means no fusion. Other operations are executed alone. Pure; the entry at `begin` must be a
/// published call.
template <class Atomics>
[[nodiscard]] BatchEnd propose_batch_end(const Log<Atomics>& log, std::uint64_t begin, std::uint64_t threshold_bytes) {
    const auto first = log.read(begin);
    if (first.operation != static_cast<std::uint32_t>(collectives::Operation::allreduce)) {
        return {begin + 1, true};
    }
    std::uint64_t bytes = first.bytes;
    std::uint64_t end = begin + 1;
    while (end - begin < kBatchEntries && log.is_published(end)) {
        const auto next = log.read(end);
        if (!is_call(next.kind) || next.operation != first.operation || bytes + next.bytes > threshold_bytes) {
            return {end, true};
        }
        bytes += next.bytes;
        ++end;
    }
    return {end, end - begin == kBatchEntries || bytes >= threshold_bytes};
}

}  // namespace rueda::core
