// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace rueda::launcher {

/// A GPU of this host during an interval. A value is missing if the driver does not tell it.
struct GpuUse {
    std::uint32_t index = 0;            ///< as nvidia-smi counts
    std::optional<double> utilization;  ///< the part of the time in which it executed something, from 0 to 1
    std::optional<std::uint64_t> used_bytes;
    std::optional<std::uint64_t> total_bytes;
    std::vector<std::int32_t> pids;  ///< the processes that compute on it
};

/// The GPUs of this host, as NVML sees them. Threads: one.
class Gpus {
public:
    static constexpr const char* kNvml = "libnvidia-ml.so.1";

    /// Loads NVML, which may take a second. If it cannot be loaded, or finds no GPU, the list of GPUs is empty.
    explicit Gpus(const char* library = kNvml);
    ~Gpus();
    Gpus(const Gpus&) = delete;
    Gpus& operator=(const Gpus&) = delete;

    /// Reads how busy the GPUs are, unless this was done a moment ago. `now_ns` is the time of CLOCK_MONOTONIC.
    void look(std::int64_t now_ns);
    /// Looks, and returns the GPUs in the order of their numbers. The utilization is the average of all looks since the
    /// last call.
    [[nodiscard]] std::vector<GpuUse> take(std::int64_t now_ns);

private:
    class Nvml;
    struct Gpu {
        void* device = nullptr;
        std::uint32_t index = 0;
        double sum = 0;
        std::int64_t looks = 0;
    };
    void read();

    std::unique_ptr<const Nvml> nvml_;  // null: there are no GPUs
    std::vector<Gpu> gpus_;
    std::int64_t next_look_ns_ = 0;
};

}  // namespace rueda::launcher
