// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "training/replicas/device_replica_team.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <span>
#include <string>
#include <utility>

#include "rueda/error.hpp"
#include "training/first_error.hpp"
#include "training/replicas/replica_checks.hpp"

namespace rueda::training {
namespace {

int checked_device_count(std::span<const DeviceReplica> replicas, const DeviceReplicasOptions& options) {
    const int count = static_cast<int>(replicas.size());
    check_replicas_options(
        {.op = options.op, .passes_per_step = options.passes_per_step, .process_set = options.process_set}, count);
    check_device_replicas(replicas);
    return count;
}

std::vector<std::string> names_of_parameters(const DeviceReplica& replica) {
    std::vector<std::string> names;
    for (const DeviceParameter& each : replica.parameters) {
        names.push_back(each.name);
    }
    return names;
}

/// Makes a team. Its list of tensors has first all gradients, and then all values.
rueda_device_team* make_team(std::span<const DeviceReplica> replicas, const DeviceReplicasOptions& options) {
    std::vector<DeviceStream> streams;
    std::vector<std::vector<rueda_tensor>> tensors;
    std::vector<const rueda_tensor*> data;
    for (const DeviceReplica& replica : replicas) {
        streams.push_back(replica.stream);
        std::vector<rueda_tensor>& own = tensors.emplace_back();
        for (const DeviceParameter& each : replica.parameters) {
            own.push_back(each.gradient.c_tensor());
        }
        for (const DeviceParameter& each : replica.parameters) {
            own.push_back(each.values.c_tensor());
        }
    }
    for (const std::vector<rueda_tensor>& each : tensors) {
        data.push_back(each.data());
    }
    rueda_device_team_options given = RUEDA_DEVICE_TEAM_INIT;
    given.replicas = replicas.size();
    given.streams = streams.data();
    given.tensors = tensors[0].size();
    given.data = data.data();
    given.summed = replicas[0].parameters.size();
    given.reduce_op = static_cast<std::int32_t>(options.op);
    if (options.op == ReduceOp::average) {
        given.postscale = 1.0 / static_cast<double>(options.passes_per_step);
    }
    rueda_device_team* team = nullptr;
    detail::check(rueda_device_team_create(&given, &team));
    return team;
}

}  // namespace

DeviceReplicaTeam::DeviceReplicaTeam(std::vector<DeviceReplica> replicas, const DeviceReplicasOptions& options)
    : ReplicaRuns({.count = checked_device_count(replicas, options),
                   .names = names_of_parameters(replicas[0]),
                   .passes_per_step = options.passes_per_step,
                   .process_set = options.process_set}),
      options_(options),
      parameters_(replicas[0].parameters),
      team_(make_team(replicas, options)),
      progress_(parameters()) {
    detail::check(rueda_device_team_stream(team_.get(), &stream_));
    for (Progress& each : progress_) {
        each.arrived.resize(replicas.size());
    }
}

DeviceReplicaTeam::~DeviceReplicaTeam() { drop_gradients(); }

void DeviceReplicaTeam::begin_run() {
    for (Progress& each : progress_) {
        std::fill(each.arrived.begin(), each.arrived.end(), std::uint8_t{0});
        each.is_summed = false;
    }
}

void DeviceReplicaTeam::arrive(std::size_t parameter, int replica) {
    Progress& progress = progress_[parameter];
    int is_summed = 0;
    detail::check(rueda_device_team_ready(team_.get(), static_cast<std::size_t>(replica), parameter, &is_summed));
    progress.arrived[static_cast<std::size_t>(replica)] = 1;
    if (is_summed != 0) {
        progress.is_summed = true;
        start_reduction(parameter);
    }
}

/// Starts the reduction of a gradient among the processes, unless it was started before.
void DeviceReplicaTeam::start_reduction(std::size_t parameter) {
    Progress& progress = progress_[parameter];
    if (processes() > 1 && progress.reduction.empty()) {
        // The team has already multiplied the gradients by all factors, so this allreduce uses no factor.
        progress.reduction =
            allreduce_async("replicas.gradient." + parameters_[parameter].name, parameters_[parameter].gradient,
                            {.op = options_.op, .process_set = options_.process_set, .device = stream_});
    }
}

void DeviceReplicaTeam::announce_anyway(std::size_t parameter) {
    Progress& progress = progress_[parameter];
    for (int replica = 0; replica < count() && !progress.is_summed; ++replica) {
        if (progress.arrived[static_cast<std::size_t>(replica)] == 0) {
            arrive(parameter, replica);  // the call for the last replica starts the reduction
        }
    }
    start_reduction(parameter);
}

void DeviceReplicaTeam::drop_gradients() noexcept {
    for (Progress& each : progress_) {
        if (each.reduction.empty()) {
            continue;
        }
        try {
            each.reduction.wait_on_stream(stream_);
        } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the step has failed already
        }
        each.reduction = Handle();
    }
    // Makes later work in the replicas' streams wait for the team's work. The result is ignored: if a GPU has failed,
    // the next call reports its error again.
    static_cast<void>(rueda_device_team_join(team_.get()));
}

void DeviceReplicaTeam::synchronize() {
    check_runs();
    end_step();
    FirstError errors;
    // Backward passes produce the gradients from the last parameter to the first, so the reductions end in this order.
    // While one gradient is copied to the replicas, the reductions of the next gradients can continue.
    for (std::size_t i = parameters(); i-- > 0;) {
        errors.attempt([&] {
            if (Handle& reduction = progress_[i].reduction; !reduction.empty()) {
                const Handle ended = std::move(reduction);
                ended.wait_on_stream(stream_);
            }
            detail::check(rueda_device_team_distribute(team_.get(), i));
        });
    }
    errors.attempt([&] { detail::check(rueda_device_team_join(team_.get())); });
    errors.rethrow();
}

void DeviceReplicaTeam::broadcast(int root) {
    check_idle();
    if (root < 0 || root >= processes()) {
        throw InvalidArgument(fmt::format(
            "DeviceReplicas::broadcast(): root is {}; expected the rank of a process, 0 to {}", root, processes() - 1));
    }
    detail::check(rueda_device_team_follow(team_.get()));
    FirstError errors;
    if (processes() > 1) {
        std::vector<Handle> broadcasts;
        broadcasts.reserve(parameters_.size());
        errors.attempt([&] {
            for (const DeviceParameter& each : parameters_) {
                broadcasts.push_back(broadcast_async("replicas.values." + each.name, each.values, root,
                                                     {.process_set = options_.process_set, .device = stream_}));
            }
        });
        // Even after a failure, the replicas' streams must wait until no broadcast uses the values.
        for (const Handle& each : broadcasts) {
            errors.attempt([&] { each.wait_on_stream(stream_); });
        }
    }
    if (errors.none()) {
        errors.attempt([&] { copy_values(); });
    }
    errors.attempt([&] { detail::check(rueda_device_team_join(team_.get())); });
    errors.rethrow();
}

void DeviceReplicaTeam::copy_to_replicas() {
    check_idle();
    detail::check(rueda_device_team_follow(team_.get()));
    FirstError errors;
    errors.attempt([&] { copy_values(); });
    errors.attempt([&] { detail::check(rueda_device_team_join(team_.get())); });
    errors.rethrow();
}

/// Puts copies of the values from replica 0 to the other replicas into the team's streams. The replicas' streams do not
/// wait for these copies yet.
void DeviceReplicaTeam::copy_values() {
    for (std::size_t i = 0; i < parameters(); ++i) {
        detail::check(rueda_device_team_distribute(team_.get(), parameters() + i));
    }
}

}  // namespace rueda::training
