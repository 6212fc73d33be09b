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

/// An allreduce by adasum over the ranks of one host. It uses AdasumPasses with every rank as an owner, and is used for
/// batches in which some announcement did not contain its input.
class AdasumTask final : public Task {
public:
    explicit AdasumTask(HostSet& set);

    void begin(const Batch& batch);
    StepResult step() override;

private:
    HostSet& set_;
    AdasumPasses passes_;
    std::vector<PartMap> maps_;  // by member
};

}  // namespace rueda::collectives
