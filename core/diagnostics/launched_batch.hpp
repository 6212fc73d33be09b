// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>

#include "collectives/cuda/plugin_interface.hpp"
#include "collectives/operation.hpp"

namespace rueda::core {

/// A batch that was launched on this rank's GPU and has not ended. Stall reports use it.
struct LaunchedBatch {
    std::uint64_t position = 0;  ///< the batch's position in the log
    std::int64_t since_ns = 0;   ///< when this rank launched the batch (CLOCK_MONOTONIC)
    std::string name = {};       ///< the name of the first operation; empty for an unnamed operation
    std::uint64_t call = 0;      ///< the number of the first operation, if it is unnamed
    collectives::Operation operation = collectives::Operation::allreduce;
    std::uint64_t others = 0;  ///< the number of the other operations in the batch
    std::int32_t device = -1;
    collectives::DeviceCall work{};  ///< what the GPU executes for the batch
};

}  // namespace rueda::core
