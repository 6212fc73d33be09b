// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/host_communicator.hpp"

namespace rueda::collectives {

Task& HostCommunicator::start(const Batch& batch) {
    if (batch.operation == Operation::allreduce) {
        if (numa_allreduce_.suits(batch)) {
            numa_allreduce_.begin(batch);
            return numa_allreduce_;
        }
        allreduce_.begin(batch);
        return allreduce_;
    }
    if (batch.operation != Operation::broadcast && batch.operation != Operation::allgather) {
        scatter_.begin(batch);
        return scatter_;
    }
    exchange_.begin(batch);
    return exchange_;
}

}  // namespace rueda::collectives
