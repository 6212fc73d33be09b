// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/gpus/machine_gpus.hpp"

namespace rueda::base {

/// The environment variable with which users and launchers choose the GPUs that CUDA shows to a process.
inline constexpr const char* kVisibleDevices = "CUDA_VISIBLE_DEVICES";

/// The GPUs that CUDA shows to a process, in CUDA's order. CUDA numbers them from 0.
struct VisibleGpus {
    /// For each GPU, the text that names it in CUDA_VISIBLE_DEVICES: an index, a UUID, or an instance of a GPU
    /// ("MIG-…").
    std::vector<std::string> entries;
    std::optional<std::string> variable;  ///< the value of CUDA_VISIBLE_DEVICES, if it is set
    std::string problem;                  ///< why CUDA shows fewer GPUs than CUDA_VISIBLE_DEVICES lists; empty if CUDA
                                          ///< shows all of them
    std::size_t on_machine = 0;           ///< the number of GPUs that this process can open

    [[nodiscard]] int count() const { return static_cast<int>(entries.size()); }
};

/// Computes what CUDA shows. `variable` is the value of CUDA_VISIBLE_DEVICES, or nothing if the variable is not set.
[[nodiscard]] VisibleGpus visible_gpus(const std::optional<std::string>& variable,
                                       const std::vector<MachineGpu>& machine);

/// Returns a text about the GPUs, for messages: "1 GPU", or "2 GPUs (CUDA_VISIBLE_DEVICES is '0,2')".
[[nodiscard]] std::string describe_gpus(const VisibleGpus& visible);

}  // namespace rueda::base
