// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/common/execution_parts.hpp"

#include "collectives/host/arena/arena.hpp"

namespace rueda::core {

using base::PartKind;
using collectives::StepResult;
using collectives::StepWork;

namespace {

PartKind kind_of_part(StepWork work) {
    switch (work) {
        case StepWork::copy_in:
            return PartKind::copy_in;
        case StepWork::reduce:
            return PartKind::reduce;
        case StepWork::copy_out:
            return PartKind::copy_out;
        case StepWork::network:
            return PartKind::network;
        case StepWork::none:
        case StepWork::other:
        case StepWork::device_wait:
            break;
    }
    return PartKind::work;
}

bool is_wait(PartKind kind) {
    return kind == PartKind::wait || kind == PartKind::wait_for_hosts || kind == PartKind::wait_for_gpu;
}

}  // namespace

StepResult ExecutionParts::step(collectives::Task& task, std::uint64_t batch) {
    if (batch != batch_) {
        batch_ = batch;
        open_ = rest_ = {};
        recorded_ = 0;
    }
    const std::uint64_t begin = base::ticks_now();
    const StepResult result = task.step();
    const std::uint64_t end = base::ticks_now();
    switch (result) {
        case StepResult::waiting:
            extend(PartKind::wait, begin, end);
            if (const std::int32_t rank = awaited_rank(); rank >= 0) {
                open_.awaited = rank;
            }
            break;
        case StepResult::polling:
            extend(task.last_work() == StepWork::device_wait ? PartKind::wait_for_gpu : PartKind::wait_for_hosts, begin,
                   end);
            break;
        case StepResult::advanced:
            extend(kind_of_part(task.last_work()), begin, end);
            break;
        case StepResult::done:
            if (task.last_work() != StepWork::none) {
                extend(kind_of_part(task.last_work()), begin, end);
            }
            finish(end);
            break;
    }
    return result;
}

void ExecutionParts::extend(PartKind kind, std::uint64_t begin, std::uint64_t end) {
    if (open_.steps == 0 || open_.kind != kind) {
        close(begin);
        open_ = {.kind = kind, .begin_ticks = begin};
    }
    open_.end_ticks = end;
    ++open_.steps;
}

/// Ends the open part and records it. If the part is a wait, its end is `next_begin`, the time at which the next step
/// began.
void ExecutionParts::close(std::uint64_t next_begin) {
    if (open_.steps == 0) {
        return;
    }
    if (is_wait(open_.kind)) {
        open_.end_ticks = next_begin;
        open_.waited_ticks = open_.end_ticks - open_.begin_ticks;
    }
    if (recorded_ < kMostParts) {
        writer_.note_part(set_id_, open_);
        ++recorded_;
    } else {
        if (rest_.steps == 0) {
            rest_ = {.kind = PartKind::rest, .begin_ticks = open_.begin_ticks};
        }
        rest_.end_ticks = open_.end_ticks;
        rest_.steps += open_.steps;
        rest_.waited_ticks += open_.waited_ticks;
    }
    open_ = {};
}

void ExecutionParts::finish(std::uint64_t end) {
    close(end);
    if (rest_.steps != 0) {
        writer_.note_part(set_id_, rest_);
    }
    rest_ = {};
    recorded_ = 0;
}

/// Returns the rank of this host that has done the fewest steps, or -1 if no rank has done fewer than this rank. The
/// numbers of steps come from the counters that the ranks publish while they execute a batch.
std::int32_t ExecutionParts::awaited_rank() const {
    std::uint64_t least = collectives::steps_of(view_.arena.progress(view_.rank));
    std::int32_t awaited = -1;
    for (std::uint32_t member = 0; member < view_.extent().members; ++member) {
        const std::uint64_t steps = collectives::steps_of(view_.arena.progress(member));
        if (steps < least) {
            least = steps;
            awaited = view_.job_rank_of(member);
        }
    }
    return awaited;
}

}  // namespace rueda::core
