// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/gpus/gpus.hpp"

#include <algorithm>

namespace rueda::launcher {

namespace {

/// The shortest time between two readings. The driver averages over 1/6 s to 1 s, so more frequent readings would give
/// the same values.
constexpr std::int64_t kLookNs = 100'000'000;

}  // namespace

Gpus::Gpus(const char* library) : nvml_(base::Nvml::load(library)) {
    if (nvml_) {
        for (const base::Nvml::Device& device : nvml_->devices()) {
            gpus_.push_back({device});
        }
    }
}

void Gpus::look(std::int64_t now_ns) {
    if (now_ns >= next_look_ns_) {
        next_look_ns_ = now_ns + kLookNs;
        read();
    }
}

void Gpus::read() {
    for (Gpu& gpu : gpus_) {
        if (const std::optional<double> utilization = nvml_->utilization(gpu.device)) {
            gpu.sum += *utilization;
            ++gpu.looks;
        }
    }
}

std::vector<GpuUse> Gpus::take(std::int64_t now_ns) {
    look(now_ns);
    std::vector<GpuUse> uses;
    for (Gpu& gpu : gpus_) {
        GpuUse use;
        use.index = gpu.device.index;
        if (gpu.looks > 0) {
            use.utilization = gpu.sum / static_cast<double>(gpu.looks);
        }
        if (const std::optional<base::Nvml::Memory> memory = nvml_->memory(gpu.device)) {
            use.used_bytes = memory->used_bytes;
            use.total_bytes = memory->total_bytes;
        }
        use.pids = nvml_->pids(gpu.device);
        uses.push_back(std::move(use));
        gpu.sum = 0;
        gpu.looks = 0;
    }
    return uses;
}

}  // namespace rueda::launcher
