// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "base/gpus/choose_device.hpp"
#include "base/gpus/machine_gpus.hpp"
#include "base/settings/environment.hpp"
#include "base/status.hpp"

namespace rueda::base {

/// Finds the GPUs that CUDA would show to this process, and chooses one by choose_device(). `environment` has
/// CUDA_VISIBLE_DEVICES and Slurm's variables; `job_size` is the number of ranks of the job. If `request` does not say
/// how many GPUs each rank gets, the function takes this number from Slurm's variables, if they contain it. The
/// function does not load libcuda and creates no CUDA context, so that the process may still fork.
[[nodiscard]] Result<int> local_device(DeviceRequest request, int job_size, const EnvironmentLookup& environment,
                                       const GpuSources& sources = {});

}  // namespace rueda::base
