// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/gpus/choose_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/numbers.hpp"
#include "base/text.hpp"

namespace rueda::base {

namespace {

std::string number_of_things(int count, const char* thing) {
    return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

Status no_gpu(const DeviceRequest& request, const VisibleGpus& visible) {
    if (visible.on_machine == 0) {
        return failure(ErrorCode::unsupported,
                       "this process finds no NVIDIA GPU on host '{}': libnvidia-ml.so.1 cannot be loaded or lists no "
                       "GPU, and /proc/driver/nvidia lists none that this process may open; use the CPU, or start the "
                       "job on hosts with GPUs; in a container, start it with access to the GPUs (docker run --gpus "
                       "all); `rueda doctor` shows what was found",
                       request.host);
    }
    return failure(ErrorCode::unsupported,
                   "CUDA shows this process none of the {} on host '{}', because {} is {}{}{}; unset it, or list GPUs "
                   "of that host",
                   number_of_things(static_cast<int>(visible.on_machine), "GPU"), request.host, kVisibleDevices,
                   quote(visible.variable.value_or("")), visible.problem.empty() ? "" : " and ", visible.problem);
}

/// The error for a host with too few GPUs. `possible` is the number of ranks for which the host has enough GPUs.
Status too_few_gpus(const DeviceRequest& request, const VisibleGpus& visible, int possible) {
    const std::string each = request.gpus_per_rank == 0
                                 ? std::string()
                                 : fmt::format(" with {} each", number_of_things(request.gpus_per_rank, "GPU"));
    const std::string fewer = possible == 0 ? ""
                                            : fmt::format("start at most {} there (-np, or the host's slots), or ",
                                                          number_of_things(possible, "rank"));
    return failure(
        ErrorCode::invalid_argument,
        "there {} {}{} on host '{}' but {}; {}let ranks share GPUs (ruedarun --share-gpu, or "
        "RUEDA_SHARE_GPU=1){}",
        request.local_size == 1 ? "is" : "are", number_of_things(request.local_size, "rank"), each, request.host,
        describe_gpus(visible), fewer,
        request.gpus_per_rank == 0 && visible.variable
            ? "; if a script already gives each rank its own GPUs, say how many: RUEDA_GPUS_PER_RANK=1 (with "
              "ruedarun, -x RUEDA_GPUS_PER_RANK=1)"
            : "");
}

/// Whether CUDA_VISIBLE_DEVICES lists exactly the GPUs that this local rank gets if all ranks get the same number of
/// GPUs.
bool is_block_of_rank(const DeviceRequest& request, const VisibleGpus& visible) {
    if (!visible.variable) {
        return false;
    }
    int next = request.local_rank * visible.count();
    return std::all_of(visible.entries.begin(), visible.entries.end(),
                       [&next](const std::string& entry) { return entry == std::to_string(next++); });
}

/// Divides `ranks` ranks into `blocks` blocks of ranks with consecutive numbers. Returns the number of the block that
/// contains `rank`.
int block_of_rank(int rank, int ranks, int blocks) {
    return static_cast<int>(static_cast<std::int64_t>(rank) * blocks / ranks);
}

/// Returns the position of this rank's first GPU in the list of visible GPUs, if each rank gets `gpus_per_rank` GPUs.
Result<int> first_gpu_of_rank(const DeviceRequest& request, const VisibleGpus& visible) {
    const int groups = visible.count() / request.gpus_per_rank;
    if (groups >= request.local_size) {
        return request.local_rank * request.gpus_per_rank;
    }
    if (request.share && groups > 0) {
        return block_of_rank(request.local_rank, request.local_size, groups) * request.gpus_per_rank;
    }
    return too_few_gpus(request, visible, groups);
}

/// Reads the number in a text of Slurm such as "2" or "a100:2". Returns 0 if the text contains no number.
int slurm_number(std::string_view text) {
    const std::size_t colon = text.rfind(':');
    return std::max(0, parse_integer<int>(text.substr(colon == std::string_view::npos ? 0 : colon + 1)).value_or(0));
}

/// Reads the number of GPUs in a text such as "cpu=2,gres/gpu=1" or "gres/gpu:a100:1". Returns 0 if the text names no
/// GPUs.
int gpus_in_slurm_resources(std::string_view text) {
    constexpr std::string_view kGpus = "gres/gpu";
    const std::size_t at = text.find(kGpus);
    if (at == std::string_view::npos) {
        return 0;
    }
    std::string value(text.substr(at + kGpus.size(), text.find(',', at) - at - kGpus.size()));
    std::replace(value.begin(), value.end(), '=', ':');
    return slurm_number(value);
}

}  // namespace

Result<int> choose_device(const DeviceRequest& request, const VisibleGpus& visible) {
    if (visible.count() == 0) {
        return no_gpu(request, visible);
    }
    if (request.gpus_per_rank > visible.count()) {
        return failure(ErrorCode::invalid_argument,
                       "RUEDA_GPUS_PER_RANK is {}, but CUDA shows this process {} on host '{}'; let the launcher give "
                       "each rank its GPUs (ruedarun --gpus-per-rank), or unset RUEDA_GPUS_PER_RANK",
                       request.gpus_per_rank, describe_gpus(visible), request.host);
    }
    if (request.gpus_per_rank > 0) {
        return visible.count() == request.gpus_per_rank ? Result<int>(0) : first_gpu_of_rank(request, visible);
    }
    if (visible.count() >= request.local_size) {
        return request.local_rank;
    }
    if (is_block_of_rank(request, visible)) {
        return 0;
    }
    if (request.share) {
        return block_of_rank(request.local_rank, request.local_size, visible.count());
    }
    return too_few_gpus(request, visible, visible.count());
}

Result<std::string> devices_of_rank(const DeviceRequest& request, const VisibleGpus& visible) {
    if (visible.count() == 0) {
        return no_gpu(request, visible);
    }
    const Result<int> first = first_gpu_of_rank(request, visible);
    RUEDA_RETURN_IF_FAILED(first.status());
    const auto begin = visible.entries.begin() + first.value();
    return fmt::format("{}", fmt::join(begin, begin + request.gpus_per_rank, ","));
}

int gpus_per_slurm_task(const EnvironmentLookup& environment, int job_size) {
    const auto text = [&environment](const char* name) { return environment.value(name).value_or(""); };
    const int tasks = parse_integer<int>(text("SLURM_STEP_NUM_TASKS")).value_or(0);
    if (tasks < job_size || text("SLURM_LOCALID").empty()) {
        return 0;
    }
    const int gpus = slurm_number(text("SLURM_GPUS_PER_TASK"));
    return gpus > 0 ? gpus : gpus_in_slurm_resources(text("SLURM_TRES_PER_TASK"));
}

}  // namespace rueda::base
