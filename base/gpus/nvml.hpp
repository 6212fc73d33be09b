// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rueda::base {

/// NVML, the management library of NVIDIA's driver. It is loaded at run time. It creates no CUDA context and does not
/// load libcuda. Values that the driver does not report are missing. Threads: only one thread may use an object.
class Nvml {
public:
    static constexpr const char* kLibrary = "libnvidia-ml.so.1";

    /// A GPU in NVML's list.
    struct Device {
        void* handle = nullptr;
        std::uint32_t index = 0;  ///< the GPU's number, as nvidia-smi shows it
    };
    struct Memory {
        std::uint64_t used_bytes = 0;
        std::uint64_t total_bytes = 0;
    };

    /// Loads NVML, which may take a second. Returns null if the library does not exist, lacks a function, or finds no
    /// driver.
    [[nodiscard]] static std::unique_ptr<const Nvml> load(const char* library = kLibrary);
    ~Nvml();
    Nvml(const Nvml&) = delete;
    Nvml& operator=(const Nvml&) = delete;

    /// The GPUs that this user may use, ordered by PCI bus address.
    [[nodiscard]] std::vector<Device> devices() const;
    [[nodiscard]] std::string uuid(const Device& device) const;         ///< for example "GPU-8932f937-…"
    [[nodiscard]] std::string name(const Device& device) const;         ///< for example "NVIDIA H100 80GB HBM3"
    [[nodiscard]] std::string pci_address(const Device& device) const;  ///< for example "00000000:1B:00.0"
    [[nodiscard]] std::optional<Memory> memory(const Device& device) const;
    /// The part of the driver's last measuring period in which the GPU executed something, from 0 to 1.
    [[nodiscard]] std::optional<double> utilization(const Device& device) const;
    /// The processes that compute on the GPU.
    [[nodiscard]] std::vector<std::int32_t> pids(const Device& device) const;
    [[nodiscard]] std::string driver_version() const;

private:
    struct Functions;
    explicit Nvml(std::unique_ptr<const Functions> functions);

    std::unique_ptr<const Functions> functions_;
};

}  // namespace rueda::base
