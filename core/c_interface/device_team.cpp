// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The functions of rueda/replicas.h.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/status.hpp"
#include "collectives/cuda/plugin_interface.hpp"
#include "core/c_interface/guarded.hpp"
#include "core/c_interface/process.hpp"
#include "core/runtime/devices.hpp"
#include "core/runtime/runtime.hpp"
#include "ops/reduce.hpp"
#include "rueda/replicas.h"

using rueda::DType;
using rueda::ErrorCode;
using rueda::failure;
using rueda::ReduceOp;
using rueda::Result;
using rueda::Status;
using rueda::collectives::DeviceTeamPlan;
using rueda::core::Runtime;
using rueda::core::c_interface::check_place;
using rueda::core::c_interface::current_runtime;
using rueda::core::c_interface::guarded;

struct rueda_device_team {
    std::unique_ptr<rueda::collectives::DeviceTeam> team;
    std::size_t replicas;
    std::size_t tensors;
    std::size_t summed;
};

namespace {

Status check_team_options(const rueda_device_team_options* options) {
    if (options == nullptr || options->struct_size != sizeof(rueda_device_team_options)) {
        return failure(ErrorCode::invalid_argument,
                       "device team: the options are NULL or have another size than this library expects ({} bytes); "
                       "initialise them with RUEDA_DEVICE_TEAM_INIT",
                       sizeof(rueda_device_team_options));
    }
    if (options->replicas == 0 || options->streams == nullptr || options->data == nullptr) {
        return failure(ErrorCode::invalid_argument,
                       "device team: there are {} replicas, or their streams or tensors are NULL; expected at least "
                       "one replica with both",
                       options->replicas);
    }
    if (options->summed > options->tensors) {
        return failure(ErrorCode::invalid_argument, "device team: {} of {} tensors are summed; expected at most all",
                       options->summed, options->tensors);
    }
    if (options->reduce_op != RUEDA_AVERAGE && options->reduce_op != RUEDA_SUM) {
        return failure(ErrorCode::invalid_argument, "device team: reduce_op is {}; expected {} (average) or {} (sum)",
                       options->reduce_op, static_cast<int>(RUEDA_AVERAGE), static_cast<int>(RUEDA_SUM));
    }
    if (options->reserved != 0) {
        return failure(ErrorCode::invalid_argument, "device team: reserved is {}; expected 0", options->reserved);
    }
    return {};
}

/// Returns the number of elements.
Result<std::size_t> checked_count(const rueda_tensor& tensor, std::size_t replica, std::size_t index) {
    if (tensor.dtype < 0 || tensor.dtype >= rueda::kDTypeCount || tensor.ndim < 0 ||
        tensor.ndim > RUEDA_MAX_DIMENSIONS || (tensor.ndim > 0 && tensor.shape == nullptr)) {
        return failure(
            ErrorCode::invalid_argument,
            "device team: tensor {} of replica {} has dtype number {} and {} dimensions; expected a dtype of "
            "enum rueda_dtype, 0 to {} dimensions, and a shape",
            index, replica, tensor.dtype, tensor.ndim, RUEDA_MAX_DIMENSIONS);
    }
    const std::size_t most = PTRDIFF_MAX / rueda::size_of(static_cast<DType>(tensor.dtype));
    std::size_t count = 1;
    for (const std::int64_t extent : std::span(tensor.shape, static_cast<std::size_t>(tensor.ndim))) {
        if (extent < 0 || (extent > 0 && count > most / static_cast<std::size_t>(extent))) {
            return failure(ErrorCode::invalid_argument,
                           "device team: tensor {} of replica {} has an extent of {}; expected extents of at least 0, "
                           "and fewer bytes than the address space",
                           index, replica, extent);
        }
        count *= static_cast<std::size_t>(extent);
    }
    if (count > 0 && tensor.data == nullptr) {
        return failure(ErrorCode::invalid_argument, "device team: the data of tensor {} of replica {} is NULL", index,
                       replica);
    }
    return count;
}

Status add_tensor(const rueda_device_team_options& options, std::size_t index, DeviceTeamPlan& plan) {
    rueda::collectives::TeamTensor tensor;
    for (std::size_t replica = 0; replica < options.replicas; ++replica) {
        const rueda_tensor& given = options.data[replica][index];
        const Result<std::size_t> count = checked_count(given, replica, index);
        RUEDA_RETURN_IF_FAILED(count.status());
        const auto dtype = static_cast<DType>(given.dtype);
        if (replica == 0) {
            tensor.dtype = dtype;
            tensor.count = count.value();
        } else if (dtype != tensor.dtype || count.value() != tensor.count) {
            return failure(
                ErrorCode::invalid_argument,
                "device team: tensor {} has {} elements of {} on replica {}, but {} elements of {} on replica "
                "0; expected the same",
                index, count.value(), name_of(dtype), replica, tensor.count, name_of(tensor.dtype));
        }
        tensor.replicas.push_back(static_cast<std::byte*>(given.data));
    }
    if (index < options.summed && !rueda::ops::is_floating_point(tensor.dtype)) {
        return failure(ErrorCode::invalid_argument,
                       "device team: tensor {} is to be summed, but its dtype is {}; expected floating-point numbers",
                       index, name_of(tensor.dtype));
    }
    plan.tensors.push_back(std::move(tensor));
    return {};
}

Result<DeviceTeamPlan> plan_of(const rueda_device_team_options& options) {
    DeviceTeamPlan plan;
    plan.summed = options.summed;
    plan.postscale = options.postscale;
    plan.op = static_cast<ReduceOp>(options.reduce_op);
    for (std::size_t replica = 0; replica < options.replicas; ++replica) {
        const rueda_device_stream& stream = options.streams[replica];
        if (stream.type != RUEDA_CUDA) {
            return failure(ErrorCode::invalid_argument,
                           "device team: the device of replica {} has type {}; expected {} (CUDA)", replica,
                           stream.type, static_cast<int>(RUEDA_CUDA));
        }
        if (options.tensors > 0 && options.data[replica] == nullptr) {
            return failure(ErrorCode::invalid_argument, "device team: the tensors of replica {} are NULL", replica);
        }
        plan.replicas.push_back({stream.index, stream.stream});
    }
    for (std::size_t index = 0; index < options.tensors; ++index) {
        RUEDA_RETURN_IF_FAILED(add_tensor(options, index, plan));
    }
    return plan;
}

Status check_team(const rueda_device_team* team) {
    return team != nullptr ? Status()
                           : failure(ErrorCode::invalid_argument,
                                     "device team: the team is NULL; expected one of rueda_device_team_create");
}

}  // namespace

extern "C" {

int rueda_device_team_create(const rueda_device_team_options* options, rueda_device_team** team) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_place(team, "team"));
        RUEDA_RETURN_IF_FAILED(check_team_options(options));
        const Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        Result<DeviceTeamPlan> plan = plan_of(*options);
        RUEDA_RETURN_IF_FAILED(plan.status());
        const auto devices = rueda::core::open_devices(runtime.value()->config(), runtime.value()->logger());
        RUEDA_RETURN_IF_FAILED(devices.status());
        auto made = devices.value()->make_team(std::move(plan).value());
        RUEDA_RETURN_IF_FAILED(made.status());
        *team = new rueda_device_team{std::move(made).value(), options->replicas, options->tensors, options->summed};
        return {};
    });
}

void rueda_device_team_free(rueda_device_team* team) { delete team; }

int rueda_device_team_stream(const rueda_device_team* team, rueda_device_stream* stream) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_team(team));
        RUEDA_RETURN_IF_FAILED(check_place(stream, "stream"));
        const rueda::collectives::DeviceStream own = team->team->stream();
        *stream = {RUEDA_CUDA, own.device, own.stream};
        return {};
    });
}

int rueda_device_team_ready(rueda_device_team* team, size_t replica, size_t tensor, int* is_summed) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_team(team));
        RUEDA_RETURN_IF_FAILED(check_place(is_summed, "answer"));
        if (replica >= team->replicas || tensor >= team->summed) {
            return failure(ErrorCode::invalid_argument,
                           "device team: there is no tensor {} of replica {} that is summed; there are {} such tensors "
                           "and {} replicas",
                           tensor, replica, team->summed, team->replicas);
        }
        const Result<bool> summed = team->team->ready(replica, tensor);
        RUEDA_RETURN_IF_FAILED(summed.status());
        *is_summed = summed.value() ? 1 : 0;
        return {};
    });
}

int rueda_device_team_follow(rueda_device_team* team) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_team(team));
        return team->team->follow();
    });
}

int rueda_device_team_distribute(rueda_device_team* team, size_t tensor) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_team(team));
        if (tensor >= team->tensors) {
            return failure(ErrorCode::invalid_argument, "device team: there is no tensor {}; there are {} tensors",
                           tensor, team->tensors);
        }
        return team->team->distribute(tensor);
    });
}

int rueda_device_team_join(rueda_device_team* team) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_team(team));
        return team->team->join();
    });
}

}  // extern "C"
