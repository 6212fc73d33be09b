// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "training/replicas/replica_team.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "base/floating_point.hpp"
#include "rueda/error.hpp"
#include "rueda/training/gradients.hpp"
#include "training/replicas/divided_reduction.hpp"
#include "training/replicas/replica_checks.hpp"
#include "training/replicas/ring_reduction.hpp"

namespace rueda::training {
namespace {

/// The number of elements of a piece of a divided gradient. benchmarks/replicas_bench compares sizes: much smaller
/// pieces cost more locking, and much larger pieces cannot be divided evenly.
constexpr std::size_t kReplicaPiece = std::size_t{64} << 10;

/// If all parameters together have fewer elements, one thread updates them. Waking the other threads would take about
/// as long as the update.
constexpr std::size_t kFewElements = std::size_t{64} << 10;

DistributedOptimizerOptions distribution_of(const ReplicasOptions& options, int count) {
    const std::int64_t passes = options.passes_per_step;
    return {.op = options.op,
            .passes_per_step = options.op == ReduceOp::average ? passes * count : passes,
            .max_norm = options.max_norm,
            .compression = options.compression,
            .process_set = options.process_set};
}

LocalDivision division_of(const ReplicasOptions& options, int count) {
    switch (options.reduction) {
        case ReplicaReduction::to_one:
            return {.group = count};
        case ReplicaReduction::hierarchical:
            return {.group = options.group > 0 ? options.group
                                               : static_cast<int>(std::ceil(std::sqrt(static_cast<double>(count))))};
        case ReplicaReduction::divided:
        case ReplicaReduction::ring:
            break;
    }
    return {.group = count, .piece = kReplicaPiece};
}

int checked_count(const ReplicasOptions& options, std::span<const std::vector<Parameter>> replicas) {
    const int count = static_cast<int>(replicas.size());
    check_replicas_options(options, count);
    check_replicas(replicas);
    return count;
}

std::vector<std::string> names_of(std::span<const Parameter> parameters) {
    std::vector<std::string> names;
    for (const Parameter& each : parameters) {
        names.push_back(each.name);
    }
    return names;
}

std::vector<LocalReduction::Gradient> gradients_of(std::span<const std::vector<Parameter>> replicas) {
    std::vector<LocalReduction::Gradient> gradients(replicas[0].size());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
        gradients[i].count = replicas[0][i].gradient.size();
        for (const std::vector<Parameter>& each : replicas) {
            gradients[i].replicas.push_back(each[i].gradient.data());
        }
    }
    return gradients;
}

std::unique_ptr<LocalReduction> make_reduction(std::span<const std::vector<Parameter>> replicas,
                                               const ReplicasOptions& options, LocalReduction::Completed completed) {
    const int count = static_cast<int>(replicas.size());
    if (options.reduction == ReplicaReduction::ring && count > 1) {
        return std::make_unique<RingReduction>(gradients_of(replicas), count, std::move(completed));
    }
    return std::make_unique<DividedReduction>(gradients_of(replicas), count, division_of(options, count),
                                              std::move(completed));
}

std::vector<std::vector<std::span<float>>> copies_of(std::span<const std::vector<Parameter>> replicas) {
    std::vector<std::vector<std::span<float>>> copies(replicas[0].size());
    for (std::size_t i = 0; i < copies.size(); ++i) {
        for (const std::vector<Parameter>& each : replicas) {
            if (each[i].values.data() != replicas[0][i].values.data()) {
                copies[i].push_back(each[i].values);
            }
        }
    }
    return copies;
}

}  // namespace

ReplicaTeam::ReplicaTeam(const OptimizerRule& rule, std::vector<std::vector<Parameter>> replicas,
                         const ReplicasOptions& options)
    : ReplicaRuns({.count = checked_count(options, replicas),
                   .names = names_of(replicas[0]),
                   .passes_per_step = options.passes_per_step,
                   .process_set = options.process_set}),
      options_(options),
      optimizer_(rule, replicas[0], distribution_of(options, count())),
      copies_(copies_of(replicas)),
      by_size_(replicas[0].size()),
      reduction_(make_reduction(replicas, options, [this](std::size_t parameter) { announce(parameter); })),
      announced_(replicas[0].size()) {
    const std::span<const Parameter> parameters = optimizer_.parameters();
    std::iota(by_size_.begin(), by_size_.end(), std::size_t{0});
    std::stable_sort(by_size_.begin(), by_size_.end(), [&](std::size_t one, std::size_t other) {
        return parameters[one].values.size() > parameters[other].values.size();
    });
    for (const Parameter& each : parameters) {
        elements_ += each.values.size();
    }
}

void ReplicaTeam::broadcast(int root) {
    check_idle();
    if (processes() != size()) {
        throw InvalidArgument(fmt::format(
            "replicas: broadcast() copies to all {} ranks of the job, but the process set has {}; broadcast "
            "each parameter in the process set, and then call copy_to_replicas()",
            size(), processes()));
    }
    optimizer_.broadcast(root);
    copy_to_replicas();
}

void ReplicaTeam::copy_to_replicas() {
    check_idle();
    for_each_parameter([this](std::size_t parameter) { copy_values(parameter); });
}

void ReplicaTeam::copy_values(std::size_t parameter) {
    const std::span<const float> values = optimizer_.parameters()[parameter].values;
    for (const std::span<float>& copy : copies_[parameter]) {
        std::copy(values.begin(), values.end(), copy.begin());
    }
}

/// Calls `action` for each parameter, on the threads of all replicas if there is enough to do. Which thread updates a
/// parameter depends on timing. So all threads use the default floating-point environment here, even if the functions
/// of the replicas have changed it on their threads.
void ReplicaTeam::for_each_parameter(const std::function<void(std::size_t)>& action) {
    if (count() == 1 || elements_ < kFewElements) {
        const base::DefaultFloatingPoint environment;
        std::for_each(by_size_.begin(), by_size_.end(), action);
        return;
    }
    // relaxed: the counter only divides the parameters among the threads. The mutex of the threads orders the accesses
    // to the parameters.
    std::atomic<std::size_t> next{0};
    threads().run([&](int /*number*/) {
        const base::DefaultFloatingPoint environment;
        for (std::size_t i = next.fetch_add(1, std::memory_order_relaxed); i < by_size_.size();
             i = next.fetch_add(1, std::memory_order_relaxed)) {
            action(by_size_[i]);
        }
    });
}

void ReplicaTeam::begin_run() {
    std::fill(announced_.begin(), announced_.end(), 0);
    reduction_->begin();
}

/// Starts the reduction of a parameter's gradient among the processes, unless it was started before. If this throws, a
/// second call continues where the first one has stopped.
void ReplicaTeam::announce(std::size_t parameter) {
    const std::lock_guard lock(announcing_);
    const std::int64_t times = distribution_of(options_, count()).passes_per_step;
    for (std::int64_t& calls = announced_[parameter]; calls < times; ++calls) {
        optimizer_.gradient_ready(parameter);
    }
}

void ReplicaTeam::synchronize() {
    check_runs();
    try {
        optimizer_.synchronize();
    } catch (...) {
        end_step();
        throw;
    }
}

void ReplicaTeam::step(double learning_rate, double gradient_factor) {
    synchronize();
    double factor = gradient_factor;
    if (std::isfinite(options_.max_norm)) {
        factor *= clip_factor(std::abs(gradient_factor) * gradient_norm(optimizer_.parameters()), options_.max_norm);
    }
    Optimizer& optimizer = optimizer_.optimizer();
    optimizer.begin_step(learning_rate, factor);
    for_each_parameter([&](std::size_t parameter) {
        optimizer.update(parameter);
        copy_values(parameter);
    });
    skip();  // skip() only ends the step: the parameters are already updated
}

void ReplicaTeam::skip() {
    synchronize();
    optimizer_.skip();
    end_step();
}

}  // namespace rueda::training
