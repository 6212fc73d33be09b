// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "collectives/cuda/kernels.hpp"
#include "collectives/cuda/plugin_interface.hpp"

/// Divides an operation that moves rows (allgather, reducescatter, alltoall, gather, scatter) into pieces for CUDA IPC.
///
/// Each member copies its input piece by piece into its slots (buffers in device memory that all members can read). A
/// piece is at most as large as a slot. From each piece, a member takes the ranges that it needs. In an allgather, the
/// member takes everything. In an alltoall, the member takes the rows that are sent to it. In a reducescatter, the
/// member takes its own rows from all members at once, and reduces them.
namespace rueda::collectives::cuda {

struct IpcRows {
    /// A range of some member's input that this rank needs.
    struct Wanted {
        std::uint32_t member = 0;  ///< the member that has the input; unused in a reducescatter, which combines all
        std::uint64_t begin = 0;   ///< where the range begins in the member's input, in bytes
        std::uint64_t bytes = 0;
        std::byte* output = nullptr;
    };
    Segment segment{};
    bool reduces = false;              ///< true for a reducescatter
    const std::byte* input = nullptr;  ///< the input of this member
    std::uint64_t input_bytes = 0;
    std::vector<Wanted> wanted{};
    std::uint64_t longest = 0;  ///< the size in bytes of the longest input; the same on all members
    /// The total size in bytes of all inputs. For a reducescatter it is the size of one input. The number is the same
    /// on all members.
    std::uint64_t moved = 0;
};

/// Whether the operation moves rows.
[[nodiscard]] bool moves_rows(Operation operation);

/// Fills `plan` for a batch with one tensor. Returns Internal if the batch's lists are too short. All members of the
/// set are on one host, so the batch for the CPU contains the splits (row counts) between all members.
[[nodiscard]] Status plan_ipc_rows(const DeviceBatch& batch, std::uint32_t member, std::uint32_t members,
                                   IpcRows& plan);

/// The number of pieces, which is the same on all members.
[[nodiscard]] std::size_t pieces_of(const IpcRows& plan, std::size_t slot_bytes);

/// Copies this member's input of a piece into its slot, from which all members read it.
[[nodiscard]] Status launch_rows_in(Kernels& kernels, CudaStream stream, const IpcRows& plan, std::size_t piece,
                                    std::size_t slot_bytes, std::byte* slot);
/// Copies or reduces the ranges that this member needs of a piece. `slots` are the slots (shared buffers) of all
/// members.
[[nodiscard]] Status launch_rows_out(Kernels& kernels, CudaStream stream, const IpcRows& plan, std::size_t piece,
                                     std::size_t slot_bytes, std::span<std::byte* const> slots);

}  // namespace rueda::collectives::cuda
