// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/gpus/nvml.hpp"

namespace rueda::launcher {

/// How busy a GPU of this host was during an interval. Values that the driver does not report are missing.
struct GpuUse {
    std::uint32_t index = 0;            ///< the GPU's number, as nvidia-smi shows it
    std::optional<double> utilization;  ///< the part of the time in which the GPU executed something, from 0 to 1
    std::optional<std::uint64_t> used_bytes;
    std::optional<std::uint64_t> total_bytes;
    std::vector<std::int32_t> pids;  ///< the numbers (pids) of the processes that compute on the GPU
};

/// Watches the GPUs of this host through NVML, NVIDIA's management library. Threads: only one thread may use an object.
class Gpus {
public:
    /// Loads NVML, which may take a second. If NVML cannot be loaded or finds no GPU, take() returns an empty list.
    explicit Gpus(const char* library = base::Nvml::kLibrary);

    /// Reads how busy the GPUs are, unless the last reading was very recent. `now_ns` is the current time in
    /// CLOCK_MONOTONIC.
    void look(std::int64_t now_ns);
    /// Reads the GPUs once more and returns them, ordered by number. The utilization is the average of all readings
    /// since the last call of take().
    [[nodiscard]] std::vector<GpuUse> take(std::int64_t now_ns);

private:
    struct Gpu {
        base::Nvml::Device device;
        double sum = 0;
        std::int64_t looks = 0;
    };
    void read();

    std::unique_ptr<const base::Nvml> nvml_;  // null: there are no GPUs
    std::vector<Gpu> gpus_;
    std::int64_t next_look_ns_ = 0;
};

}  // namespace rueda::launcher
