// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "training/replicas/replica_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

#include "rueda/error.hpp"

namespace rueda::training {
namespace {

bool spans_overlap(std::span<const float> one, std::span<const float> other) {
    // std::less compares pointers into different arrays.
    const std::less<> before;
    return !one.empty() && !other.empty() && before(one.data(), other.data() + other.size()) &&
           before(other.data(), one.data() + one.size());
}

void check_values(std::span<const std::vector<Parameter>> replicas, std::size_t replica, std::size_t index) {
    const Parameter& mine = replicas[replica][index];
    for (std::size_t other = 0; other < replica; ++other) {
        const Parameter& theirs = replicas[other][index];
        const bool is_shared = mine.values.data() == replicas[0][index].values.data();
        if (spans_overlap(mine.values, theirs.values) && !is_shared) {
            throw InvalidArgument(
                fmt::format("replicas: the values of parameter '{}' overlap in replicas {} and {}; share the values of "
                            "replica 0, or give replica {} its own",
                            mine.name, other, replica, replica));
        }
    }
}

/// Throws InvalidArgument if any two gradients overlap, no matter to which replicas and parameters they belong.
void check_gradients(std::span<const std::vector<Parameter>> replicas) {
    struct Owned {
        std::span<const float> gradient;
        std::size_t replica;
        std::string_view name;
    };
    std::vector<Owned> all;
    for (std::size_t replica = 0; replica < replicas.size(); ++replica) {
        for (const Parameter& each : replicas[replica]) {
            if (!each.gradient.empty()) {
                all.push_back({each.gradient, replica, each.name});
            }
        }
    }
    std::stable_sort(all.begin(), all.end(), [](const Owned& one, const Owned& other) {
        return std::less<>()(one.gradient.data(), other.gradient.data());
    });
    // The gradients are sorted by their addresses. So if any two of them overlap, then two neighbours overlap, too.
    const auto same = std::adjacent_find(all.begin(), all.end(), [](const Owned& one, const Owned& other) {
        return spans_overlap(one.gradient, other.gradient);
    });
    if (same != all.end()) {
        const Owned& one = *same;
        const Owned& other = *std::next(same);
        throw InvalidArgument(
            fmt::format("replicas: the gradient of parameter '{}' of replica {} and that of '{}' of replica {} are in "
                        "the same memory; give each parameter of each replica its own gradient",
                        one.name, one.replica, other.name, other.replica));
    }
}

}  // namespace

void check_replicas_options(const ReplicasOptions& options, int replicas) {
    if (replicas < 1) {
        throw InvalidArgument("replicas: there are no replicas; give the parameters of at least one");
    }
    if (options.reduction != ReplicaReduction::to_one && options.reduction != ReplicaReduction::hierarchical &&
        options.reduction != ReplicaReduction::divided && options.reduction != ReplicaReduction::ring) {
        throw InvalidArgument(fmt::format("replicas: reduction is {}; use to_one, hierarchical, divided or ring",
                                          static_cast<int>(options.reduction)));
    }
    if (options.group < 0 || options.group > replicas) {
        throw InvalidArgument(
            fmt::format("replicas: group is {}; it must be 0, or from 1 to the {} replicas", options.group, replicas));
    }
    if (options.op != ReduceOp::average && options.op != ReduceOp::sum) {
        throw InvalidArgument(fmt::format("replicas: op is {}; use average or sum", name_of(options.op)));
    }
    if (options.passes_per_step < 1) {
        throw InvalidArgument(
            fmt::format("replicas: passes_per_step is {}; it must be at least 1", options.passes_per_step));
    }
}

void check_replicas(std::span<const std::vector<Parameter>> replicas) {
    const std::vector<Parameter>& first = replicas[0];
    for (std::size_t replica = 1; replica < replicas.size(); ++replica) {
        if (replicas[replica].size() != first.size()) {
            throw InvalidArgument(fmt::format("replicas: replica {} has {} parameters, but replica 0 has {}", replica,
                                              replicas[replica].size(), first.size()));
        }
        for (std::size_t i = 0; i < first.size(); ++i) {
            const Parameter& each = replicas[replica][i];
            if (each.name != first[i].name) {
                throw InvalidArgument(fmt::format("replicas: parameter {} of replica {} is '{}', but of replica 0 '{}'",
                                                  i, replica, each.name, first[i].name));
            }
            if (each.values.size() != first[i].values.size() || each.gradient.size() != first[i].gradient.size()) {
                throw InvalidArgument(fmt::format(
                    "replicas: parameter '{}' of replica {} has {} values and a gradient of {}, but in replica 0 {} "
                    "and {}",
                    each.name, replica, each.values.size(), each.gradient.size(), first[i].values.size(),
                    first[i].gradient.size()));
            }
            check_values(replicas, replica, i);
        }
    }
    check_gradients(replicas);
}

void check_device_replicas(std::span<const DeviceReplica> replicas) {
    const std::vector<DeviceParameter>& first = replicas[0].parameters;
    std::map<const void*, std::string> owners;
    for (std::size_t replica = 0; replica < replicas.size(); ++replica) {
        const std::vector<DeviceParameter>& own = replicas[replica].parameters;
        if (own.size() != first.size()) {
            throw InvalidArgument(fmt::format("replicas: replica {} has {} parameters, but replica 0 has {}", replica,
                                              own.size(), first.size()));
        }
        for (std::size_t i = 0; i < own.size(); ++i) {
            if (own[i].name != first[i].name) {
                throw InvalidArgument(fmt::format("replicas: parameter {} of replica {} is '{}', but of replica 0 '{}'",
                                                  i, replica, own[i].name, first[i].name));
            }
            const auto [owner, is_new] =
                owners.emplace(own[i].gradient.data(), fmt::format("'{}' of replica {}", own[i].name, replica));
            if (!is_new && own[i].gradient.data() != nullptr) {
                throw InvalidArgument(
                    fmt::format("replicas: the gradients of parameter {} and of '{}' of replica {} are in the same "
                                "memory; give each "
                                "parameter of each replica its own gradient",
                                owner->second, own[i].name, replica));
            }
        }
    }
}

}  // namespace rueda::training
