// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/gpus/local_device.hpp"

#include <algorithm>

#include "base/gpus/visible_gpus.hpp"

namespace rueda::base {

Result<int> local_device(DeviceRequest request, int job_size, const EnvironmentLookup& environment,
                         const GpuSources& sources) {
    const VisibleGpus visible = visible_gpus(environment.value(kVisibleDevices), find_machine_gpus(sources).gpus);
    if (request.gpus_per_rank == 0) {
        request.gpus_per_rank = std::min(gpus_per_slurm_task(environment, job_size), visible.count());
    }
    return choose_device(request, visible);
}

}  // namespace rueda::base
