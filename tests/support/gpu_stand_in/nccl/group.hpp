// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <vector>

#include "tests/support/gpu_stand_in/nccl/communicator.hpp"
#include "tests/support/gpu_stand_in/nccl/kernel.hpp"

namespace rueda::tests::gpu {

/// The group of the calling thread. NCCL user guide, "Group Calls": the operations between ncclGroupStart() and the
/// outermost ncclGroupEnd() are started together.
struct Group {
    int depth = 0;
    NcclResult error = 0;  ///< the first error of a call in the group
    std::vector<NcclOperation> operations{};
    std::vector<CommunicatorPtr> aborts{};
    std::vector<CommunicatorPtr> connecting{};  ///< blocking communicators that were made in the group
    std::uint64_t generation = 0;               ///< of Machine
};
Group& thread_group();

/// Notes that the calling thread launches an operation of the communicator. Reports a violation if another thread is
/// launching work of another communicator on the same device.
void begin_launch(Machine& machine, const Communicator& communicator);
/// Notes that the operation is in its stream, or that it was dropped.
void end_launch(const Communicator& communicator);
/// Starts the operations. The caller has called begin_launch() for each of them. Operations on a non-blocking
/// communicator may be launched later, and the communicator is in progress until then.
[[nodiscard]] NcclResult start_operations(Machine& machine, std::vector<NcclOperation> operations);
/// Ends the kernels of the communicators, then waits until no kernel of NCCL runs on their devices.
void abort_communicators(NcclCall& call, const std::vector<CommunicatorPtr>& aborted);

}  // namespace rueda::tests::gpu
