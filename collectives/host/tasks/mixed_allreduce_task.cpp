// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/tasks/mixed_allreduce_task.hpp"

#include <utility>

namespace rueda::collectives {

MixedAllreduceTask::MixedAllreduceTask(std::uint32_t members, Begin others, Begin adasum)
    : members_(members), begin_others_(std::move(others)), begin_adasum_(std::move(adasum)) {}

void MixedAllreduceTask::Part::add(const Batch& batch, std::uint32_t segment, std::uint32_t members) {
    segments.push_back(batch.segments[segment]);
    const auto of = batch.locations_of(segment, members);
    locations.insert(locations.end(), of.begin(), of.end());
}

Batch MixedAllreduceTask::Part::batch(const Batch& of) const {
    Batch part = of;
    part.segments = segments;
    part.locations = locations;
    return part;
}

void MixedAllreduceTask::start(const Batch& batch) {
    batch_ = batch;
    adasum_follows_ = !others_.segments.empty();
    task_ = adasum_follows_ ? &begin_others_(others_.batch(batch)) : &begin_adasum_(adasums_.batch(batch));
}

StepResult MixedAllreduceTask::step() {
    const StepResult result = task_->step();
    if (result != StepResult::done || !adasum_follows_) {
        return result;
    }
    adasum_follows_ = false;
    task_ = &begin_adasum_(adasums_.batch(batch_));
    return StepResult::advanced;
}

}  // namespace rueda::collectives
