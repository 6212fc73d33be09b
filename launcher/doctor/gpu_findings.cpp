// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Draws the conclusions of `rueda doctor` about GPUs from the facts in GpuFacts. The functions in this file do not look
// at the machine.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "launcher/doctor/doctor.hpp"

namespace rueda::launcher {

namespace {

constexpr int kMostIpcRanks = 16;  // if a host has more ranks than this, they do not use CUDA IPC; the same number
                                   // as kMostIpcMembers in collectives/cuda/nccl/offer.hpp

class GpuExamination {
public:
    GpuExamination(const GpuFacts& facts, std::optional<int> ranks, const Environment& environment,
                   bool has_other_hosts)
        : facts_(facts), ranks_(ranks), environment_(environment), has_other_hosts_(has_other_hosts) {}

    std::vector<Finding> examine() && {
        if (facts_.machine.gpus.empty()) {
            fine("GPUs", "no NVIDIA GPU that this user may open");
            return std::move(findings_);
        }
        list_gpus();
        look_at_driver();
        look_at_nccl();
        look_at_order();
        look_at_ranks();
        look_at_way();
        return std::move(findings_);
    }

private:
    void fine(std::string subject, std::string found) {
        findings_.push_back({Severity::fine, std::move(subject), std::move(found), ""});
    }
    void warn(std::string subject, std::string found, std::string advice) {
        findings_.push_back({Severity::warning, std::move(subject), std::move(found), std::move(advice)});
    }

    void list_gpus() {
        for (std::size_t i = 0; i < facts_.machine.gpus.size(); ++i) {
            const base::MachineGpu& gpu = facts_.machine.gpus[i];
            std::vector<std::string> parts;
            parts.push_back(gpu.name.empty() ? "a GPU without a name" : base::printable(gpu.name));
            if (gpu.total_bytes) {
                parts.push_back(base::format_bytes(*gpu.total_bytes));
            }
            for (const std::string& text : {gpu.uuid, gpu.pci_address}) {
                if (!text.empty()) {
                    parts.push_back(base::printable(text));
                }
            }
            fine(fmt::format("GPU {}", i), fmt::format("{}", fmt::join(parts, ", ")));
        }
    }

    void look_at_driver() {
        const std::string version = facts_.machine.driver_version.empty()
                                        ? "of unknown version"
                                        : base::printable(facts_.machine.driver_version);
        if (facts_.cuda.file.empty()) {
            warn("GPU driver", fmt::format("{}; libcuda.so.1 was not found", version),
                 "name its folder in LD_LIBRARY_PATH; in a container, set NVIDIA_DRIVER_CAPABILITIES=compute,utility; "
                 "without it, no program can use CUDA");
        } else {
            fine("GPU driver", fmt::format("{}, {}", version, facts_.cuda.file));
        }
        if (!facts_.machine.has_nvml) {
            warn("NVML", "libnvidia-ml.so.1 cannot be loaded; the list of GPUs is from /proc/driver/nvidia",
                 "in a container, set NVIDIA_DRIVER_CAPABILITIES=compute,utility; without NVML, rueda top shows no "
                 "GPUs");
        }
    }

    void look_at_nccl() {
        if (facts_.nccl.file.empty()) {
            warn(
                "NCCL", "libnccl.so.2 was not found in the packages of python3, nor where the system's loader looks",
                "pip install nvidia-nccl-cu13 (or -cu12), or name its folder in LD_LIBRARY_PATH; without it, large "
                "tensors move through GPU memory that the ranks of a host share (CUDA IPC), and all others through the "
                "host's memory");
        } else if (is_too_old()) {
            warn("NCCL", fmt::format("{}, {}; expected 2.18 or newer", facts_.nccl.version, facts_.nccl.file),
                 "install a newer version; Rueda does not use this one");
        } else if (const char* const bug = known_bug(); *bug != '\0') {
            warn("NCCL", fmt::format("{}, {}; {}", facts_.nccl.version, facts_.nccl.file, bug),
                 "a newer version of NCCL avoids it");
        } else {
            fine("NCCL", fmt::format("{}, {}",
                                     facts_.nccl.version.empty() ? "a version that its file name does not tell"
                                                                 : facts_.nccl.version,
                                     facts_.nccl.file));
        }
    }

    /// The number of NCCL's version, as NCCL_VERSION_CODE: 22809 is 2.28.9. 0 if it is not known.
    [[nodiscard]] int nccl_version() const {
        int major = 0;
        int minor = 0;
        int patch = 0;
        // NOLINTNEXTLINE(cert-err34-c): a text without numbers leaves the zeros
        const int found = std::sscanf(facts_.nccl.version.c_str(), "%4d.%4d.%4d", &major, &minor, &patch);
        return found >= 2 ? major * 10000 + minor * 100 + patch : 0;
    }
    /// The versions of NCCL in the following functions are the same as in collectives/cuda/nccl (load_nccl, offer).
    [[nodiscard]] bool is_too_old() const { return nccl_version() != 0 && nccl_version() < 21800; }
    [[nodiscard]] const char* known_bug() const {
        const int version = nccl_version();
        if (version >= 22000 || version == 0) {
            return "";
        }
        return version < 21900 ? "an abort can hang, so that a job may end slowly after a rank dies"
                               : "an alltoall can hang unless NCCL_CUMEM_ENABLE=0 is set";
    }

    /// Says how the tensors of the ranks on this host will move if all these ranks are in one process set. Rueda
    /// decides this when the ranks connect, and writes its decision to the log.
    void look_at_way() {
        const int gpus = facts_.visible.count();
        if (gpus == 0) {
            return;
        }
        const int ranks = ranks_.value_or(gpus);
        const bool share = ranks > gpus;
        const std::string path = text_of(environment_, "RUEDA_GPU_PATH");
        const bool has_nccl = !facts_.nccl.file.empty() && !is_too_old();
        const bool may_share = nccl_version() >= 23000 && text_of(environment_, "NCCL_MULTI_RANK_GPU_ENABLE") == "1";
        const auto say = [&](std::string way) {
            fine("tensors on GPUs", fmt::format("{} {} on {} {} here: {}", ranks, ranks == 1 ? "rank" : "ranks", gpus,
                                                gpus == 1 ? "GPU" : "GPUs", way));
        };
        if (path == "host") {
            say("through the host's memory, because RUEDA_GPU_PATH is 'host'");
        } else if (has_nccl && path != "ipc" && (!share || may_share)) {
            say(share ? "NCCL, by its experimental setting NCCL_MULTI_RANK_GPU_ENABLE=1" : "NCCL");
        } else if (path == "nccl") {
            say("operations fail, because RUEDA_GPU_PATH is 'nccl', and NCCL cannot connect the ranks");
        } else {
            const bool has_ipc = !has_other_hosts_ && ranks >= 2 && ranks <= kMostIpcRanks;
            say(fmt::format("{}, because {}",
                            has_ipc ? "batches of 3 MiB and more through GPU memory that the ranks share (CUDA IPC), "
                                      "others through the host's memory"
                                    : "through the host's memory",
                            path == "ipc" ? "RUEDA_GPU_PATH is 'ipc'"
                            : !has_nccl   ? "there is no NCCL that Rueda can use"
                                          : "NCCL before 2.30 connects at most one rank for each GPU, and newer "
                                            "versions need NCCL_MULTI_RANK_GPU_ENABLE=1 for more"));
        }
    }

    /// If the GPUs are of different models, nvidia-smi and CUDA may number them differently, because CUDA puts the
    /// fastest GPU first.
    void look_at_order() {
        const std::vector<base::MachineGpu>& gpus = facts_.machine.gpus;
        const bool differ = std::any_of(gpus.begin(), gpus.end(),
                                        [&gpus](const base::MachineGpu& gpu) { return gpu.name != gpus.front().name; });
        if (differ && text_of(environment_, "CUDA_DEVICE_ORDER") != "PCI_BUS_ID") {
            warn("order of the GPUs",
                 "the GPUs are of different models, so CUDA may number them in another order than "
                 "nvidia-smi and the lines above",
                 "set CUDA_DEVICE_ORDER=PCI_BUS_ID for all ranks, or use UUIDs in CUDA_VISIBLE_DEVICES");
        }
    }

    void look_at_ranks() {
        const int count = facts_.visible.count();
        const std::string shown = base::describe_gpus(facts_.visible);
        if (count == 0) {
            warn("ranks and GPUs", fmt::format("CUDA shows {}", shown),
                 fmt::format("unset {}, or list GPUs of this host", base::kVisibleDevices));
        } else if (!facts_.visible.problem.empty()) {
            warn("ranks and GPUs", fmt::format("CUDA shows {}", shown),
                 fmt::format("correct {}", base::kVisibleDevices));
        } else if (ranks_ && *ranks_ > count) {
            warn("ranks and GPUs",
                 fmt::format("{} ranks for {}: ranks would have to share a GPU, which they may not do unless you "
                             "allow it",
                             *ranks_, shown),
                 fmt::format("start at most {} here, or start them with ruedarun --share-gpu", count));
        } else {
            fine("ranks and GPUs", fmt::format("at most {} {} here without sharing a GPU: CUDA shows {}", count,
                                               count == 1 ? "rank" : "ranks", shown));
        }
    }

    const GpuFacts& facts_;
    const std::optional<int> ranks_;
    const Environment& environment_;
    const bool has_other_hosts_;
    std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> examine_gpus(const GpuFacts& facts, std::optional<int> ranks, const Environment& environment,
                                  bool has_other_hosts) {
    return GpuExamination(facts, ranks, environment, has_other_hosts).examine();
}

}  // namespace rueda::launcher
