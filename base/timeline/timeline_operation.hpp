// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/recorder/recorder_reader.hpp"

namespace rueda::base {

/// An operation, step or scope (declared activity) of one rank, as it is drawn in the timeline. The times in `record`
/// are nanoseconds of the job's clock, which all hosts share.
struct TimelineOperation {
    std::int32_t rank = 0;
    RecordedOperation record;
};

/// Identifies an operation on all its ranks. If the operation is in a batch, the batch's position in the set's log and
/// the name identify it. Otherwise the generation of the name's slot, or the number of the call for an operation
/// without a name, identifies it. The key contains a hash of the name. If two names of one batch have the same hash,
/// their operations may be mixed up.
struct OperationKey {
    std::int32_t set_id = 0;
    std::uint8_t kind = 0;
    bool is_in_batch = false;
    std::uint32_t name_hash = 0;
    std::uint32_t batch = 0;
    std::uint32_t generation = 0;
    [[nodiscard]] bool operator==(const OperationKey&) const = default;
};

[[nodiscard]] inline OperationKey key_of(const RecordedOperation& record) {
    const bool in_batch = record.batch.has_value();
    // The generation is left out where it may differ between ranks: a rank that announces a name for the first time
    // does not know the name's slot. Operations without a name in one batch differ only in the number of the call,
    // which is stored in the same field.
    const bool needs_generation = !in_batch || record.name.empty();
    return {.set_id = record.set_id,
            .kind = record.kind,
            .is_in_batch = in_batch,
            .name_hash = record.name_hash,
            .batch = record.batch.value_or(0),
            .generation = needs_generation ? record.generation : 0};
}

struct OperationKeyHash {
    [[nodiscard]] std::size_t operator()(const OperationKey& key) const {
        std::uint64_t mixed = key.name_hash;
        for (const std::uint64_t part :
             {std::uint64_t{static_cast<std::uint32_t>(key.set_id)}, std::uint64_t{key.kind},
              std::uint64_t{key.is_in_batch ? 1U : 0U}, std::uint64_t{key.batch}, std::uint64_t{key.generation}}) {
            mixed = (mixed ^ part) * 0x9e3779b97f4a7c15U;  // 2^64 divided by the golden ratio; the multiplication
                                                           // spreads the bits
            mixed ^= mixed >> 32U;
        }
        return static_cast<std::size_t>(mixed);
    }
};

}  // namespace rueda::base
