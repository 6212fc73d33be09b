// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "collectives/communicator.hpp"
#include "collectives/cuda/plugin_interface.hpp"

/// Divides a batch of device tensors into pieces that move through pinned memory of the host. Pure functions, which
/// never read tensors.
///
/// The words: a *part* is a whole tensor or a range of its elements. A *piece* is a list of parts that one batch of the
/// communicator for the CPU executes. Each piece has one block of pinned memory.
///
/// Allreduces, broadcasts and reduces are divided at any element, so that the copies of one piece overlap with the
/// CPU's work on another one. Adasum needs whole tensors. Every other operation is one piece, whatever its size is.
namespace rueda::collectives::cuda {

struct StagedPart {
    Segment segment{};                   ///< the operation of this part; its addresses are not used
    std::size_t tensor = 0;              ///< the tensor's number in the batch
    std::byte* device_input = nullptr;   ///< where the part's input is read; null if it is not copied
    std::byte* device_output = nullptr;  ///< where the part's output goes; null if it is not copied
    std::size_t input_bytes = 0;
    std::size_t output_bytes = 0;
    std::size_t input_offset = 0;   ///< in the piece's block
    std::size_t output_offset = 0;  ///< in the piece's block; the same as `input_offset` if the CPU works in place
    bool has_input = false;         ///< whether the CPU's operation gets an input on this member
    bool has_output = false;        ///< whether the CPU's operation gets memory for an output on this member
};

struct StagedPiece {
    std::size_t first = 0;  ///< the first part
    std::size_t parts = 0;
    std::size_t bytes = 0;  ///< the size of the block
};

struct StagingPlan {
    std::vector<StagedPart> parts;
    std::vector<StagedPiece> pieces;
};

/// Fills `plan` for `batch`. If the batch's operation can be divided, the parts of tensors in a piece have together at
/// most `most_bytes` bytes; gaps between tensors do not count. All members of a set get the same pieces. Returns
/// Internal if the batch's lists are too short.
[[nodiscard]] Status plan_staging(const DeviceBatch& batch, std::uint32_t member, std::uint32_t members,
                                  std::size_t most_bytes, StagingPlan& plan);

}  // namespace rueda::collectives::cuda
