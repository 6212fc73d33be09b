// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/learning_rate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "rueda/error.hpp"

namespace rueda::training {
namespace {

constexpr std::array kPolicies = {ScalingPolicy::none, ScalingPolicy::linear, ScalingPolicy::sqrt,
                                  ScalingPolicy::capped};

double factor_of(const LearningRateOptions& options) {
    const double workers = options.workers;
    switch (options.policy) {
        case ScalingPolicy::none:
            return 1.0;
        case ScalingPolicy::linear:
            return workers;
        case ScalingPolicy::sqrt:
            return std::sqrt(workers);
        case ScalingPolicy::capped:
            return std::min(workers, options.cap);
    }
    throw InvalidArgument(fmt::format("learning-rate policy number {} is unknown; use one of 0 to {}",
                                      static_cast<int>(options.policy), kPolicies.size() - 1));
}

void check(const LearningRateOptions& options) {
    if (!std::isfinite(options.base) || options.base <= 0.0) {
        throw InvalidArgument(fmt::format("learning rate: base is {}; it must be a number above 0", options.base));
    }
    if (options.workers < 1) {
        throw InvalidArgument(fmt::format("learning rate: workers is {}; it must be at least 1", options.workers));
    }
    if (!std::isfinite(options.cap) || options.cap < 1.0) {
        throw InvalidArgument(fmt::format("learning rate: cap is {}; it must be a number from 1 on", options.cap));
    }
    if (options.warmup_steps < 0) {
        throw InvalidArgument(
            fmt::format("learning rate: warmup_steps is {}; it must not be negative", options.warmup_steps));
    }
}

}  // namespace

std::string_view name_of(ScalingPolicy policy) noexcept {
    switch (policy) {
        case ScalingPolicy::none:
            return "none";
        case ScalingPolicy::linear:
            return "linear";
        case ScalingPolicy::sqrt:
            return "sqrt";
        case ScalingPolicy::capped:
            return "capped";
    }
    return "unknown policy";
}

ScalingPolicy parse_scaling_policy(std::string_view name) {
    std::string names;
    for (const ScalingPolicy policy : kPolicies) {
        if (name == name_of(policy)) {
            return policy;
        }
        names += names.empty() ? "" : ", ";
        names += name_of(policy);
    }
    throw InvalidArgument(fmt::format("learning-rate policy '{}' is unknown; use one of {}", name, names));
}

LearningRate::LearningRate(const LearningRateOptions& options)
    : base_(options.base), scaled_(options.base), warmup_steps_(options.warmup_steps) {
    check(options);
    scaled_ = options.base * factor_of(options);
}

double LearningRate::at(std::int64_t step) const noexcept {
    if (step >= warmup_steps_) {
        return scaled_;
    }
    const double progress = static_cast<double>(std::max<std::int64_t>(step, 0)) / static_cast<double>(warmup_steps_);
    return base_ + (scaled_ - base_) * progress;
}

}  // namespace rueda::training
