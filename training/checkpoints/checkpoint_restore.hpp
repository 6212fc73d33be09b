// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "rueda/training/checkpoint_manager.hpp"

namespace rueda::training {

/// Where and how to look for a checkpoint.
struct RestoreRequest {
    std::filesystem::path store;
    WhichCheckpoint which = WhichCheckpoint::newest;
    BetterMetric better = BetterMetric::lower;
    std::function<void(std::string_view)> warn;  ///< rank 0 calls this function for each damaged checkpoint
};

/// Implements CheckpointManager::restore() and CheckpointManager::restore_parts().
std::optional<CheckpointInfo> restore_whole(const RestoreRequest& request, std::span<const NamedTensor> model,
                                            std::span<const NamedTensor> state);
std::optional<CheckpointInfo> restore_in_parts(const RestoreRequest& request, std::span<const TensorPart> parts,
                                               std::span<const NamedTensor> state);

}  // namespace rueda::training
