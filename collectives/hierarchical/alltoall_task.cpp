// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/alltoall_task.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "ops/reduce.hpp"

namespace rueda::collectives {

void AlltoallTask::begin(const Batch& batch) {
    const Segment& segment = batch.segments[0];
    const std::uint32_t size = set_.hosts.size();
    parts_.input = segment.input;
    parts_.output = segment.output;
    parts_.to.resize(size);
    parts_.from.resize(size);
    lay_out(batch.splits.first(size), segment.bytes(), parts_.to);
    lay_out(batch.splits.subspan(size, size), segment.bytes(), parts_.from);
    own_copied_ = 0;
    set_.begin_batch(HierarchicalSet::CellUse::by_pairs);
    local_.begin(parts_);
    remote_.begin(parts_);
}

/// Places the parts one behind the other. The numbers of rows come from other ranks, so their sum can overflow. If it
/// overflows, this function reports a failure and makes all parts empty, so nothing is exchanged. The caller has
/// allocated no output in this case.
void AlltoallTask::lay_out(std::span<const std::int64_t> rows, std::uint64_t row_bytes, std::vector<Range>& parts) {
    std::uint64_t end = 0;
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
        const std::uint64_t begin = end;
        std::uint64_t bytes = 0;
        if (rows[rank] < 0 || __builtin_mul_overflow(static_cast<std::uint64_t>(rows[rank]), row_bytes, &bytes) ||
            __builtin_add_overflow(begin, bytes, &end)) {
            set_.messages.fail(failure(ErrorCode::internal,
                                       "rank {} of the process set sends or is sent {} rows of {} bytes, behind {} "
                                       "bytes of the ranks before it; expected fewer than 2^64 bytes together",
                                       rank, rows[rank], row_bytes, begin));
            std::fill(parts.begin(), parts.end(), Range{});
            return;
        }
        parts[rank] = {begin, end};
    }
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

/// How many bytes this rank still has to copy from its own input to its own output.
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
