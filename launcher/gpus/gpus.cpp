// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/gpus/gpus.hpp"

#include <dlfcn.h>

#include <algorithm>

namespace rueda::launcher {

namespace {

constexpr int kSuccess = 0;
constexpr int kInsufficientSize = 7;

/// The shortest time between two looks. The driver averages over 1/6 s to 1 s, so more frequent looks would see the
/// same values.
constexpr std::int64_t kLookNs = 100'000'000;

/// No host has more GPUs or processes than these numbers. If NVML reports a larger number, NVML is wrong.
constexpr unsigned kMostGpus = 256;
constexpr unsigned kMostProcesses = 4096;

template <class Function>
bool find(void* library, const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(::dlsym(library, name));
    return function != nullptr;
}

}  // namespace

// The next types are types of NVML, NVIDIA's management library. They are not in the anonymous namespace, because the
// class Gpus::Nvml, which has external linkage, has them as members.

/// nvmlUtilization_t: percent of the driver's last measuring period
struct NvmlUtilization {
    unsigned gpu = 0;
    unsigned memory = 0;
};

/// nvmlMemory_t
struct NvmlMemory {
    unsigned long long total = 0;
    unsigned long long free = 0;
    unsigned long long used = 0;
};

/// nvmlProcessInfo_v2_t
struct NvmlProcess {
    unsigned pid = 0;
    unsigned long long used = 0;
    unsigned gpu_instance = 0;
    unsigned compute_instance = 0;
};
static_assert(sizeof(NvmlProcess) == 24);

/// The functions of NVML that Rueda calls. Their names are those in nvml.h without the prefix nvml. An nvmlDevice_t is
/// a pointer, and an nvmlReturn_t is an int.
class Gpus::Nvml {
public:
    /// Loads NVML. Returns null if the library does not exist, lacks a function, or finds no driver.
    static std::unique_ptr<const Nvml> load(const char* name) {
        void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        auto nvml = std::make_unique<Nvml>();
        if (library == nullptr || !nvml->find_all(library) || nvml->init() != kSuccess) {
            return nullptr;
        }
        nvml->is_open_ = true;
        return nvml;
    }
    Nvml() = default;
    Nvml(const Nvml&) = delete;
    Nvml& operator=(const Nvml&) = delete;
    ~Nvml() {
        if (is_open_) {
            shutdown();
        }
    }

    [[nodiscard]] std::vector<Gpu> gpus() const {
        unsigned count = 0;
        std::vector<Gpu> found;
        if (device_count(&count) == kSuccess) {
            for (unsigned index = 0; index < std::min(count, kMostGpus); ++index) {
                Gpu gpu;
                gpu.index = index;
                // The list leaves out GPUs that this user may not use.
                if (device_by_index(index, &gpu.device) == kSuccess) {
                    found.push_back(gpu);
                }
            }
        }
        return found;
    }

    [[nodiscard]] std::optional<double> utilization(void* device) const {
        constexpr double kPercent = 100;
        NvmlUtilization read;
        return device_utilization(device, &read) == kSuccess ? std::optional(std::min(read.gpu / kPercent, 1.0))
                                                             : std::nullopt;
    }

    [[nodiscard]] std::optional<NvmlMemory> memory(void* device) const {
        NvmlMemory read;
        return device_memory(device, &read) == kSuccess ? std::optional(read) : std::nullopt;
    }

    [[nodiscard]] std::vector<std::int32_t> pids(void* device) const {
        unsigned count = 0;
        int result = device_processes(device, &count, nullptr);
        std::vector<NvmlProcess> processes;
        // More processes may start between the two calls, so the buffer gets some more space. If the buffer is still
        // too small, the missing processes are found in the next interval.
        if (result == kInsufficientSize && count <= kMostProcesses) {
            constexpr unsigned kMore = 16;
            count += kMore;
            processes.resize(count);
            result = device_processes(device, &count, processes.data());
        }
        std::vector<std::int32_t> found;
        if (result == kSuccess) {
            for (std::size_t i = 0; i < std::min<std::size_t>(count, processes.size()); ++i) {
                found.push_back(static_cast<std::int32_t>(processes[i].pid));
            }
        }
        return found;
    }

private:
    bool find_all(void* library) {
        // nvmlDeviceGetComputeRunningProcesses has a version 2 and a version 3, and version 2 is preferred. In most
        // drivers an entry of the list of processes has the same form in both versions. But in the first drivers of the
        // series 535, an entry of version 3 has eight bytes more than one of version 2.
        return find(library, "nvmlInit_v2", init) && find(library, "nvmlShutdown", shutdown) &&
               find(library, "nvmlDeviceGetCount_v2", device_count) &&
               find(library, "nvmlDeviceGetHandleByIndex_v2", device_by_index) &&
               find(library, "nvmlDeviceGetUtilizationRates", device_utilization) &&
               find(library, "nvmlDeviceGetMemoryInfo", device_memory) &&
               (find(library, "nvmlDeviceGetComputeRunningProcesses_v2", device_processes) ||
                find(library, "nvmlDeviceGetComputeRunningProcesses_v3", device_processes));
    }

    int (*init)() = nullptr;
    int (*shutdown)() = nullptr;
    int (*device_count)(unsigned* count) = nullptr;
    int (*device_by_index)(unsigned index, void** device) = nullptr;
    int (*device_utilization)(void* device, NvmlUtilization* utilization) = nullptr;
    int (*device_memory)(void* device, NvmlMemory* memory) = nullptr;
    int (*device_processes)(void* device, unsigned* count, NvmlProcess* processes) = nullptr;
    bool is_open_ = false;
};

Gpus::Gpus(const char* library) : nvml_(Nvml::load(library)) {
    if (nvml_) {
        gpus_ = nvml_->gpus();
    }
}

Gpus::~Gpus() = default;

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
        use.index = gpu.index;
        if (gpu.looks > 0) {
            use.utilization = gpu.sum / static_cast<double>(gpu.looks);
        }
        if (const std::optional<NvmlMemory> memory = nvml_->memory(gpu.device)) {
            use.used_bytes = memory->used;
            use.total_bytes = memory->total;
        }
        use.pids = nvml_->pids(gpu.device);
        uses.push_back(std::move(use));
        gpu.sum = 0;
        gpu.looks = 0;
    }
    return uses;
}

}  // namespace rueda::launcher
