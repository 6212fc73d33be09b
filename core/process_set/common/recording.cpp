// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/common/recording.hpp"

#include "base/text.hpp"
#include "collectives/operation.hpp"

namespace rueda::core {

using collectives::Operation;

// The recorder is in `base`, where the type Operation is not known. So the recorder defines its own number for each
// operation. These numbers must equal the values of Operation.
static_assert(static_cast<std::uint8_t>(Operation::allreduce) == base::RecordKind::kAllreduce &&
              static_cast<std::uint8_t>(Operation::broadcast) == base::RecordKind::kBroadcast &&
              static_cast<std::uint8_t>(Operation::allgather) == base::RecordKind::kAllgather &&
              static_cast<std::uint8_t>(Operation::barrier) == base::RecordKind::kBarrier &&
              static_cast<std::uint8_t>(Operation::join) == base::RecordKind::kJoin &&
              static_cast<std::uint8_t>(Operation::alltoall) == base::RecordKind::kAlltoall &&
              static_cast<std::uint8_t>(Operation::reducescatter) == base::RecordKind::kReducescatter &&
              static_cast<std::uint8_t>(Operation::group) == base::RecordKind::kGroup &&
              static_cast<std::uint8_t>(Operation::gather) == base::RecordKind::kGather &&
              static_cast<std::uint8_t>(Operation::scatter) == base::RecordKind::kScatter &&
              static_cast<std::uint8_t>(Operation::reduce) == base::RecordKind::kReduce);
static_assert(collectives::kLastOperation == Operation::reduce, "the recorder needs a name for the new operation");

Recording::Recording(const SetView& view)
    : view_(view), writer_(view.arena.recorder(view.rank)), set_id_(view.identity.id) {
    writer_.note_set(set_id_, base::format_ranks({view.identity.ranks.begin(), view.identity.ranks.end()}));
}

void Recording::submitted(TensorEntry& entry, std::uint64_t number, std::uint64_t generation, bool is_blocking) const {
    const Request& request = entry.request;
    const Metadata& metadata = request.metadata;
    if (!writer_.knows(entry.recorded_name)) [[unlikely]] {
        entry.recorded_name = writer_.note_name(set_id_, entry.name);
    }
    std::uint64_t bytes = request.bytes();
    if (collectives::has_variable_rows(static_cast<Operation>(metadata.operation))) [[unlikely]] {
        bytes *= static_cast<std::uint64_t>(request.first_dimension);
    }
    // Also true for kNoSlot, which is larger than every slot: only an operation with a name can have no slot.
    const bool has_name = entry.slot >= view_.extent().unnamed_slots;
    entry.recorded = writer_.announce({.kind = metadata.operation,
                                       .dtype = metadata.dtype,
                                       .reduce_op = metadata.reduce_op,
                                       .is_blocking = is_blocking,
                                       .ordinal = number,
                                       .name = entry.recorded_name,
                                       .generation = !has_name ? view_.call_of_unnamed(entry.slot, generation)
                                                     : entry.slot == kNoSlot ? 0
                                                                             : generation,
                                       .bytes = bytes});
}

std::uint64_t Recording::started_batch(std::span<TensorEntry* const> entries, std::uint64_t position) const {
    const std::uint64_t now = base::ticks_now();
    writer_.note_batch(entries.size());
    for (const TensorEntry* entry : entries) {
        writer_.start(entry->recorded, now, position);
    }
    return now;
}

}  // namespace rueda::core
