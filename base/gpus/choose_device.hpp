// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/gpus/visible_gpus.hpp"
#include "base/settings/environment.hpp"
#include "base/status.hpp"

namespace rueda::base {

/// The facts that, together with the visible GPUs, decide which GPU a rank uses.
struct DeviceRequest {
    int local_rank = 0;
    int local_size = 1;
    /// The number of GPUs that the launcher gives each rank through CUDA_VISIBLE_DEVICES; 0 if no launcher divides the
    /// GPUs.
    int gpus_per_rank = 0;
    bool share = false;  ///< whether several ranks may use one GPU
    std::string host;    ///< the host's name, for messages
};

/// Chooses the GPU of a rank. Returns its CUDA device number: the position among the visible GPUs. Pure function. The
/// first rule that applies decides:
///
/// 1. No GPU is visible: the function fails with Unsupported.
/// 2. The launcher gives each rank `gpus_per_rank` GPUs. If exactly this number is visible, the rank uses device 0, the
///    first of its own GPUs. If more GPUs are visible, the launcher has not divided them among the ranks, so the rank
///    uses the first GPU of its own part of the list. If fewer GPUs are visible, the function fails with
///    InvalidArgument.
/// 3. There are at least as many GPUs as ranks on the host: the rank with local rank k uses device k.
/// 4. CUDA_VISIBLE_DEVICES lists exactly the indices of the GPUs that this local rank gets if all ranks get the same
///    number of GPUs: the rank uses device 0. This rule is for a script that starts each rank with its own value
///    ("CUDA_VISIBLE_DEVICES=$LOCAL_RANK"). If all ranks have the same value instead, the rule applies to only one
///    rank. The other ranks follow rule 5, or fail by rule 6.
/// 5. Ranks may share GPUs: the ranks are divided into blocks of neighbours, one block for each GPU. The sizes of the
///    blocks differ by at most one. Neighbours share a GPU, because launchers bind neighbours to cores of one socket,
///    and because most algorithms send most data between neighbours.
/// 6. In all other cases, the function fails with InvalidArgument. The message has the numbers and says what to do.
[[nodiscard]] Result<int> choose_device(const DeviceRequest& request, const VisibleGpus& visible);

/// Returns the value of CUDA_VISIBLE_DEVICES for a rank that gets `gpus_per_rank` of the host's visible GPUs. The GPUs
/// of a rank follow the GPUs of the ranks with lower numbers. If there are too few GPUs for all ranks and ranks may not
/// share GPUs, the function fails with InvalidArgument. If ranks may share GPUs, the ranks are divided into blocks of
/// neighbours, and the ranks of a block get the same GPUs. Pure function.
[[nodiscard]] Result<std::string> devices_of_rank(const DeviceRequest& request, const VisibleGpus& visible);

/// Returns the number of GPUs that Slurm gives to each task, either through CUDA_VISIBLE_DEVICES or by hiding the other
/// GPUs. Returns 0 if Slurm gives none. Also returns 0 if this process is not one of at least `job_size` tasks of srun:
/// if mpirun uses srun to start one process on each host, the ranks only inherit Slurm's variables from that process.
[[nodiscard]] int gpus_per_slurm_task(const EnvironmentLookup& environment, int job_size);

}  // namespace rueda::base
