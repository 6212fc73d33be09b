// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.hpp"
#include "collectives/cuda/kernels.hpp"
#include "collectives/cuda/staged/staging_plan.hpp"
#include "ops/cuda/kernel_arguments.hpp"

/// Puts the kernels for a piece of a batch into a stream. staging_plan.hpp divides a batch into pieces, and a piece
/// into parts of tensors. A slot is a buffer in device memory that all members can read. In each member's slot, a part
/// of a piece lies at the offset that the plan gives it.
namespace rueda::collectives::cuda {

/// Collects copies of bytes, and launches one kernel for every 160 copies.
class IpcCopies {
public:
    IpcCopies(Kernels& kernels, CudaStream stream) : kernels_(kernels), stream_(stream) {}
    [[nodiscard]] Status add(const std::byte* from, std::byte* to, std::size_t bytes);
    /// Launches the copies that add() has not launched. Call this at the end.
    [[nodiscard]] Status launch();

private:
    Kernels& kernels_;
    CudaStream stream_;
    std::array<ops::cuda::BatchItem, ops::cuda::kMostItems> items_{};
    std::size_t count_ = 0;
};

/// Reduces `bytes` bytes at `offset` of the slots (shared buffers) of all members, in the order of the members.
[[nodiscard]] Status launch_reduction(Kernels& kernels, CudaStream stream, const Segment& segment,
                                      std::span<std::byte* const> slots, std::size_t offset, std::size_t bytes,
                                      std::byte* to);

/// Copies this member's inputs into its slot, from which all members read them.
[[nodiscard]] Status launch_inputs(Kernels& kernels, CudaStream stream, std::span<const StagedPart> parts,
                                   std::byte* slot);

/// The memory that the kernels of a piece use.
struct IpcMemory {
    std::span<std::byte* const> slots{};  ///< the slots of the piece, by member
    std::byte* scratch = nullptr;         ///< memory as large as a slot, which only this member uses
};

/// Reads the slots of all members, and writes this member's outputs. The inputs are combined in the order of the
/// members, so the results have the bits of ops::reduce().
///
/// A single tensor, or a part of a tensor, needs one kernel, which reads all slots and writes the output. Neighbouring
/// tensors with the same reduction form a *run*, which needs two kernels, however many tensors it has. The first kernel
/// reduces the whole run, with the gaps between its tensors, into the scratch memory. The second one copies the results
/// to the outputs.
[[nodiscard]] Status launch_outputs(Kernels& kernels, CudaStream stream, Operation operation,
                                    std::span<const StagedPart> parts, const IpcMemory& memory);

}  // namespace rueda::collectives::cuda
