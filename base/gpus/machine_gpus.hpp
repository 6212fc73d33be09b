// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/gpus/nvml.hpp"

namespace rueda::base {

/// An NVIDIA GPU of this machine. Texts that are not known are empty.
struct MachineGpu {
    std::string uuid;         ///< for example "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
    std::string name;         ///< for example "NVIDIA H100 80GB HBM3"
    std::string pci_address;  ///< for example "0000:1b:00.0"
    std::optional<std::uint64_t> total_bytes;
};

struct MachineGpus {
    std::vector<MachineGpu> gpus;  ///< the GPUs are ordered by PCI bus address, as in nvidia-smi
    std::string driver_version;
    bool has_nvml = false;  ///< whether NVML gave the list; if not, it is from /proc
};

/// The library and the folders in which find_machine_gpus() looks. Tests use a library and folders of their own.
struct GpuSources {
    const char* nvml = Nvml::kLibrary;
    std::string proc = "/proc/driver/nvidia";
    std::string devices = "/dev";
};

/// Lists the GPUs that this process can open, also those that CUDA_VISIBLE_DEVICES hides. If NVML cannot be loaded, the
/// function reads the files of NVIDIA's driver in /proc. Without such files, the list is empty. A container sees the
/// files in /proc of all GPUs of its machine, so a GPU from /proc counts only if its device file exists. Creates no
/// CUDA context. May take a second.
[[nodiscard]] MachineGpus find_machine_gpus(const GpuSources& sources = {});

}  // namespace rueda::base
