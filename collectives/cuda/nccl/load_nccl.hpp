// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "collectives/cuda/load_cuda.hpp"
#include "collectives/cuda/nccl_api.hpp"

namespace rueda::collectives::cuda {

struct LoadedNccl {
    NcclApi api;
    int version = 0;       ///< 22809 is NCCL 2.28.9
    std::string path{};    ///< the file
    std::string notice{};  ///< what the user should know, such as known bugs of this version; may be empty
};

/// The oldest version that Rueda uses. When a rank dies, Rueda aborts communicators, even those that still connect. For
/// this, communicators must be non-blocking, which is possible from 2.14 on. In the versions after 2.14, some aborts
/// hang (github.com/NVIDIA/nccl/issues/863 and 992). PyTorch 2.1 contains 2.18.
inline constexpr int kOldestNccl = 21800;
/// From this version on, two members may share a device, if NCCL_MULTI_RANK_GPU_ENABLE=1 is set.
inline constexpr int kNcclSharesDevices = 23000;
/// From this version on, several communicators can be aborted in one group.
inline constexpr int kNcclAbortsInGroup = 22200;

/// "2.28.9"
[[nodiscard]] std::string name_of_nccl_version(int version);
/// Returns Unsupported if Rueda cannot use the version.
[[nodiscard]] Status check_nccl_version(int version, const std::string& path);
/// Returns a line about known bugs of the version; empty if Rueda knows none.
[[nodiscard]] std::string known_nccl_bugs(int version);

/// Fills the table. The memory functions are optional: if the library lacks one of them, the table gets none of them.
/// If the library lacks any other function, returns Unsupported with `path` and the function's name.
[[nodiscard]] Status fill_nccl_api(NcclApi& api, const std::string& path, const FindFunction& find);

/// The facts about this process that decide where load_nccl() looks for NCCL.
struct NcclSearch {
    std::string setting{};                    ///< RUEDA_NCCL_LIBRARY
    std::vector<std::string> loaded_files{};  ///< the paths of all libraries in this process
    std::string cuda_path{};                  ///< the variables CUDA_PATH and CUDA_HOME
    std::string cuda_home{};
};
[[nodiscard]] NcclSearch search_of_this_process(const std::string& setting);

/// Returns the file names to try, in this order, if no NCCL is loaded yet. The system's loader searches for a file name
/// without a folder. Pure function. The files come from these places:
///
/// 1. The path in the setting. If it is set, nothing else is tried.
/// 2. The package nvidia-nccl of the Python installations ("site-packages") from which libraries were loaded into this
///    process. PyTorch and Rueda's own wheel lie there. This search needs no Python and no variable: a framework whose
///    tensors are on the GPU has loaded its libraries before.
/// 3. The system's loader.
/// 4. The folders of the CUDA Toolkit that CUDA_PATH and CUDA_HOME name.
[[nodiscard]] std::vector<std::string> nccl_candidates(const NcclSearch& search);

/// Finds and opens NCCL. If an NCCL is loaded in the process already, this function takes it, because two copies would
/// not know of each other's use of the devices. The library is never closed. Threads: any thread may call this
/// function.
[[nodiscard]] Result<LoadedNccl> load_nccl(const NcclSearch& search);

}  // namespace rueda::collectives::cuda
