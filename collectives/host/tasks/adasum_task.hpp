// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/host/arena/part_map.hpp"
#include "collectives/host/tasks/adasum_passes.hpp"
#include "collectives/host/tasks/host_set.hpp"

namespace rueda::collectives {

/// An allreduce with Adasum over the ranks of one host. Every rank is an owner in AdasumPasses, that is, combines a
/// part of each tensor. This task is used if the announcements did not contain all inputs.
class AdasumTask final : public Task {
public:
    explicit AdasumTask(HostSet& set);

    void begin(const Batch& batch);
    StepResult step() override;

private:
    HostSet& set_;
    AdasumPasses passes_;
    std::vector<PartMap> maps_;  // indexed by member
};

}  // namespace rueda::collectives
