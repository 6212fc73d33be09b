// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/alltoall_task.hpp"

#include <algorithm>

#include "ops/reduce.hpp"

namespace rueda::collectives {

void AlltoallTask::begin(const Batch& batch) {
    const Segment& segment = batch.segments[0];
    const std::uint32_t size = set_.hosts.size();
    parts_.input = segment.input;
    parts_.output = segment.output;
    parts_.to.resize(size);
    parts_.from.resize(size);
    std::uint64_t to = 0;
    std::uint64_t from = 0;
    for (std::uint32_t rank = 0; rank < size; ++rank) {
        const auto rows_to = static_cast<std::uint64_t>(batch.splits[rank]);
        const auto rows_from = static_cast<std::uint64_t>(batch.splits[size + rank]);
        parts_.to[rank] = {to, to + rows_to * segment.bytes()};
        parts_.from[rank] = {from, from + rows_from * segment.bytes()};
        to = parts_.to[rank].end;
        from = parts_.from[rank].end;
    }
    own_copied_ = 0;
    set_.begin_batch(HierarchicalSet::CellUse::by_pairs);
    local_.begin(parts_);
    remote_.begin(parts_);
}

StepResult AlltoallTask::step() {
    return set_.step(
        work_, [this] { return act(); }, [this] { return end(); });
}

bool AlltoallTask::end() {
    if (own_left() > 0 || !local_.is_done() || !remote_.is_done()) {
        return false;
    }
    set_.end_batch(local_.pieces());
    return true;
}

bool AlltoallTask::act() { return remote_.act(work_) || local_.act(work_) || copy_own(); }

/// Of what this rank gives itself.
std::uint64_t AlltoallTask::own_left() const {
    return parts_.output == nullptr ? 0 : parts_.to[set_.hosts.my_rank()].bytes() - own_copied_;
}

bool AlltoallTask::copy_own() {
    const std::uint32_t rank = set_.hosts.my_rank();
    const std::uint64_t bytes = std::min(own_left(), HierarchicalSet::kStepBytes);
    if (bytes == 0) {
        return false;
    }
    ops::copy(parts_.output + parts_.from[rank].begin + own_copied_, parts_.input + parts_.to[rank].begin + own_copied_,
              bytes);
    own_copied_ += bytes;
    work_ += bytes;
    return true;
}

}  // namespace rueda::collectives
