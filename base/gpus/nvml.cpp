// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/gpus/nvml.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <utility>

namespace rueda::base {

namespace {

constexpr int kNvmlSuccess = 0;
constexpr int kNvmlInsufficientSize = 7;

/// No host has more GPUs or processes than these numbers. If NVML reports a larger number, NVML is wrong.
constexpr unsigned kMostGpus = 256;
constexpr unsigned kMostProcesses = 4096;

/// NVML's texts have at most 96 bytes (NVML_DEVICE_UUID_V2_BUFFER_SIZE and NVML_DEVICE_NAME_V2_BUFFER_SIZE).
constexpr unsigned kTextBytes = 96;

template <class Function>
bool find_function(void* library, const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(::dlsym(library, name));
    return function != nullptr;
}

template <std::size_t kSize>
std::string text_in(const std::array<char, kSize>& buffer) {
    return {buffer.begin(), std::find(buffer.begin(), buffer.end(), '\0')};
}

}  // namespace

// The following types are those of NVML. They are not in the anonymous namespace, because members of the class
// Nvml::Functions point to them, and this class has external linkage.

/// nvmlUtilization_t: how busy the GPU and its memory were, in percent of the driver's last measuring period
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

/// nvmlPciInfo_t
struct NvmlPciInfo {
    std::array<char, 16> old_address{};
    unsigned domain = 0;
    unsigned bus = 0;
    unsigned device = 0;
    unsigned device_id = 0;
    unsigned subsystem_id = 0;
    std::array<char, 32> address{};
};
static_assert(sizeof(NvmlPciInfo) == 68);

/// The functions of NVML that Rueda calls. Their names are those in nvml.h without the prefix nvml. An nvmlDevice_t is
/// a pointer, and an nvmlReturn_t is an int. Every NVML library has the first four functions; it may lack the others.
struct Nvml::Functions {
    int (*init)() = nullptr;
    int (*shutdown)() = nullptr;
    int (*device_count)(unsigned* count) = nullptr;
    int (*device_by_index)(unsigned index, void** device) = nullptr;
    int (*device_uuid)(void* device, char* text, unsigned bytes) = nullptr;
    int (*device_name)(void* device, char* text, unsigned bytes) = nullptr;
    int (*device_pci)(void* device, NvmlPciInfo* info) = nullptr;
    int (*device_utilization)(void* device, NvmlUtilization* utilization) = nullptr;
    int (*device_memory)(void* device, NvmlMemory* memory) = nullptr;
    int (*device_processes)(void* device, unsigned* count, NvmlProcess* processes) = nullptr;
    int (*driver_version)(char* text, unsigned bytes) = nullptr;

    bool find_all(void* library) {
        find_function(library, "nvmlDeviceGetUUID", device_uuid);
        find_function(library, "nvmlDeviceGetName", device_name);
        find_function(library, "nvmlDeviceGetPciInfo_v3", device_pci);
        find_function(library, "nvmlDeviceGetUtilizationRates", device_utilization);
        find_function(library, "nvmlDeviceGetMemoryInfo", device_memory);
        find_function(library, "nvmlSystemGetDriverVersion", driver_version);
        // nvmlDeviceGetComputeRunningProcesses has a version 2 and a version 3, and version 2 is preferred. In most
        // drivers an entry of the list of processes has the same form in both versions. But in the first drivers of the
        // series 535, an entry of version 3 has eight bytes more than one of version 2.
        if (!find_function(library, "nvmlDeviceGetComputeRunningProcesses_v2", device_processes)) {
            find_function(library, "nvmlDeviceGetComputeRunningProcesses_v3", device_processes);
        }
        return find_function(library, "nvmlInit_v2", init) && find_function(library, "nvmlShutdown", shutdown) &&
               find_function(library, "nvmlDeviceGetCount_v2", device_count) &&
               find_function(library, "nvmlDeviceGetHandleByIndex_v2", device_by_index);
    }
};

std::unique_ptr<const Nvml> Nvml::load(const char* library) {
    void* const opened = ::dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    auto functions = std::make_unique<Functions>();
    if (opened == nullptr || !functions->find_all(opened) || functions->init() != kNvmlSuccess) {
        return nullptr;
    }
    return std::unique_ptr<const Nvml>(new Nvml(std::move(functions)));
}

Nvml::Nvml(std::unique_ptr<const Functions> functions) : functions_(std::move(functions)) {}

Nvml::~Nvml() { functions_->shutdown(); }

std::vector<Nvml::Device> Nvml::devices() const {
    unsigned count = 0;
    std::vector<Device> found;
    if (functions_->device_count(&count) == kNvmlSuccess) {
        for (unsigned index = 0; index < std::min(count, kMostGpus); ++index) {
            Device device;
            device.index = index;
            // device_by_index() fails for a GPU that this user may not use, so the result does not contain such GPUs.
            if (functions_->device_by_index(index, &device.handle) == kNvmlSuccess) {
                found.push_back(device);
            }
        }
    }
    return found;
}

std::string Nvml::uuid(const Device& device) const {
    std::array<char, kTextBytes> text{};
    const bool is_known = functions_->device_uuid != nullptr &&
                          functions_->device_uuid(device.handle, text.data(), kTextBytes) == kNvmlSuccess;
    return is_known ? text_in(text) : "";
}

std::string Nvml::name(const Device& device) const {
    std::array<char, kTextBytes> text{};
    const bool is_known = functions_->device_name != nullptr &&
                          functions_->device_name(device.handle, text.data(), kTextBytes) == kNvmlSuccess;
    return is_known ? text_in(text) : "";
}

std::string Nvml::pci_address(const Device& device) const {
    NvmlPciInfo info;
    const bool is_known =
        functions_->device_pci != nullptr && functions_->device_pci(device.handle, &info) == kNvmlSuccess;
    return is_known ? text_in(info.address) : "";
}

std::optional<Nvml::Memory> Nvml::memory(const Device& device) const {
    NvmlMemory read;
    const bool is_known =
        functions_->device_memory != nullptr && functions_->device_memory(device.handle, &read) == kNvmlSuccess;
    return is_known ? std::optional(Memory{read.used, read.total}) : std::nullopt;
}

std::optional<double> Nvml::utilization(const Device& device) const {
    constexpr double kPercent = 100;
    NvmlUtilization read;
    const bool is_known = functions_->device_utilization != nullptr &&
                          functions_->device_utilization(device.handle, &read) == kNvmlSuccess;
    return is_known ? std::optional(std::min(read.gpu / kPercent, 1.0)) : std::nullopt;
}

std::vector<std::int32_t> Nvml::pids(const Device& device) const {
    if (functions_->device_processes == nullptr) {
        return {};
    }
    unsigned count = 0;
    int result = functions_->device_processes(device.handle, &count, nullptr);
    std::vector<NvmlProcess> processes;
    // The first call returns the number of processes, and the second call returns the processes. More processes may
    // start between the two calls, so the buffer gets some more space. If the buffer is still too small, the missing
    // processes are found when the caller asks again.
    if (result == kNvmlInsufficientSize && count <= kMostProcesses) {
        constexpr unsigned kMore = 16;
        count += kMore;
        processes.resize(count);
        result = functions_->device_processes(device.handle, &count, processes.data());
    }
    std::vector<std::int32_t> found;
    if (result == kNvmlSuccess) {
        for (std::size_t i = 0; i < std::min<std::size_t>(count, processes.size()); ++i) {
            found.push_back(static_cast<std::int32_t>(processes[i].pid));
        }
    }
    return found;
}

std::string Nvml::driver_version() const {
    std::array<char, kTextBytes> text{};
    const bool is_known =
        functions_->driver_version != nullptr && functions_->driver_version(text.data(), kTextBytes) == kNvmlSuccess;
    return is_known ? text_in(text) : "";
}

}  // namespace rueda::base
