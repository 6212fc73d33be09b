// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/tasks/adasum_task.hpp"

namespace rueda::collectives {
namespace {

/// How many bytes one step processes. The number is about the size of a chunk. Steps must be short, because the engine
/// checks for an abort and steps other tasks only between two steps.
constexpr std::uint64_t kAdasumStep = 64 * 1024;

}  // namespace

AdasumTask::AdasumTask(HostSet& set)
    : set_(set),
      passes_(set, set.members, [&set](std::uint64_t number) { return set.cell_is_free(set.chunks + number); }),
      maps_(set.members) {}

void AdasumTask::begin(const Batch& batch) {
    AdasumPasses::cut(batch, set_.members, maps_);
    passes_.begin(batch, maps_);
}

StepResult AdasumTask::step() {
    std::uint64_t work = 0;
    bool acted = false;
    while (work < kAdasumStep && passes_.act(work)) {
        acted = true;
    }
    if (!passes_.is_done()) {
        return acted ? StepResult::advanced : StepResult::waiting;
    }
    // All ranks have finished combining, so no rank reads this rank's inputs or writes this rank's outputs any more.
    set_.chunks += passes_.chunks();
    set_.resident_batches += passes_.wrote_in_place() ? 1U : 0U;
    return StepResult::done;
}

}  // namespace rueda::collectives
