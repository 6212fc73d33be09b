// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/gpus/machine_gpus.hpp"
#include "base/gpus/visible_gpus.hpp"
#include "launcher/options/variables.hpp"

namespace rueda::launcher {

/// A library's file, and its version if the file's name or pip's records contain the version.
struct FoundLibrary {
    std::string file;  ///< the library's file; empty if the library was not found
    std::string version;
};

/// The facts about the GPUs of this machine that the doctor has found.
struct GpuFacts {
    base::MachineGpus machine;
    base::VisibleGpus visible;
    FoundLibrary cuda;  ///< libcuda.so.1, which belongs to the driver
    FoundLibrary nccl;  ///< libnccl.so.2
};

/// Looks for the library `name` in the folders, in their order. Only looks for the file; does not load it.
[[nodiscard]] FoundLibrary find_library(std::string_view name, const std::vector<std::string>& folders);

/// Returns the file of the library `name` in the output of `ldconfig -p`; empty if there is none.
[[nodiscard]] std::string library_in_cache(std::string_view cache, std::string_view name);

/// Returns the folders of pip's package nvidia-nccl in Python's search path, which has one folder in each line.
[[nodiscard]] std::vector<std::string> nccl_folders_of_python(std::string_view search_path);

/// Collects the facts. Runs python3, to find its packages, and ldconfig. Loads neither CUDA nor NCCL. Threads: the
/// calling process must have only one thread.
[[nodiscard]] GpuFacts look_for_gpus(const Environment& environment);

}  // namespace rueda::launcher
