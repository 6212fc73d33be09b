// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/alltoall_task.hpp"

#include <algorithm>

#include "ops/reduce.hpp"

namespace rueda::collectives {
namespace {

constexpr std::uint64_t kStepBytes = 64 * 1024;

}  // namespace

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
    work_ = 0;
    bool acted = false;
    while (work_ < kStepBytes && act()) {
        acted = true;
    }
    if (!set_.messages.failure().is_ok()) {
        return StepResult::waiting;
    }
    if (acted) {
        return StepResult::advanced;
    }
    if (local_.is_done() && remote_.is_done()) {
        set_.end_batch(local_.pieces());
        return StepResult::done;
    }
    return set_.messages.under_way() ? StepResult::polling : StepResult::waiting;
}

bool AlltoallTask::act() { return remote_.act(work_) || local_.act(work_) || copy_own(); }

bool AlltoallTask::copy_own() {
    const std::uint32_t rank = set_.hosts.my_rank();
    const Range to = parts_.to[rank];
    const std::uint64_t bytes = std::min(to.bytes() - own_copied_, kStepBytes);
    if (bytes == 0 || parts_.output == nullptr) {
        return false;
    }
    ops::copy(parts_.output + parts_.from[rank].begin + own_copied_, parts_.input + to.begin + own_copied_, bytes);
    own_copied_ += bytes;
    work_ += bytes;
    return true;
}

}  // namespace rueda::collectives
