// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.hpp"
#include "collectives/cuda/kernels.hpp"
#include "collectives/cuda/staged/staging_plan.hpp"

/// Puts the kernels of a piece into a stream. A piece is that of staging_plan.hpp; its parts lie at their offsets in
/// the slot of each member.
namespace rueda::collectives::cuda {

/// Copies this member's inputs into its slot.
[[nodiscard]] Status launch_inputs(Kernels& kernels, CudaStream stream, std::span<const StagedPart> parts,
                                   std::byte* slot);

/// What the kernels of a piece read, and where.
struct IpcMemory {
    std::span<std::byte* const> slots{};  ///< of the piece, by member
    std::byte* scratch = nullptr;         ///< as large as a slot; only this member uses it
};

/// Reads the slots of all members, and writes this member's outputs. The inputs are combined in the order of the
/// members, so the results have the bits of ops::reduce().
///
/// A tensor, or a part of one, needs one kernel, which reads all slots and writes the output. Neighbours with the same
/// reduction form a *run*: one kernel reduces the run into the scratch memory, with the gaps between the tensors, and
/// another kernel copies the results to the outputs. So 160 small tensors need two launches.
[[nodiscard]] Status launch_outputs(Kernels& kernels, CudaStream stream, Operation operation,
                                    std::span<const StagedPart> parts, const IpcMemory& memory);

}  // namespace rueda::collectives::cuda
