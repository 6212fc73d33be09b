// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Learning rates for a job whose global batch grows with the number of workers. A policy scales the rate, and a
/// warm-up leads from the base rate to the scaled rate. There is no communication and no state: the rate depends only
/// on the step, so a resumed job has exactly the same rates.
#pragma once

#include <cstdint>
#include <string_view>

#include "rueda/rueda.h"

namespace rueda::training {

/// By which factor the base rate is multiplied for `workers` processes.
enum class ScalingPolicy : std::int32_t {
    none,    ///< the factor is 1, for a global batch that stays the same
    linear,  ///< the factor is `workers`: the linear scaling rule of Goyal et al. 2017 (arXiv:1706.02677, section 2.1)
    sqrt,    ///< the factor is √workers, which keeps the variance of the update (Krizhevsky 2014, arXiv:1404.5997,
             ///< section 5)
    capped,  ///< the factor is min(workers, cap): linear up to `cap`; base 0.001 and cap 1.5 give 0.0015 from 2 workers
             ///< on
};

/// Returns "none", "linear", "sqrt" or "capped".
[[nodiscard]] RUEDA_API std::string_view name_of(ScalingPolicy policy) noexcept;

/// Returns the policy with this name. Throws InvalidArgument, with the list of names, for any other text.
[[nodiscard]] RUEDA_API ScalingPolicy parse_scaling_policy(std::string_view name);

struct LearningRateOptions {
    double base = 0.0;  ///< the learning rate for one worker; finite and > 0
    ScalingPolicy policy = ScalingPolicy::none;
    int workers = 1;                ///< usually rueda::size(); ≥ 1
    double cap = 1.5;               ///< the largest factor of ScalingPolicy::capped; finite and ≥ 1
    std::int64_t warmup_steps = 0;  ///< number of steps from the base rate to the scaled rate; 0: no warm-up
};

/// Computes the learning rate of every step: base × factor, after a gradual warm-up (Goyal et al. 2017, section 2.2).
/// In the warm-up, the rate starts at the base rate and grows by the same amount in each step, until it reaches the
/// scaled rate after `warmup_steps` steps. Threads: the object does not change, so any thread may use it.
class RUEDA_API LearningRate {
public:
    /// Throws InvalidArgument if an option is out of its range; the message names the option.
    explicit LearningRate(const LearningRateOptions& options);

    /// Returns the learning rate of step `step`. Steps are counted from 0 over the whole training, not from the last
    /// resume.
    [[nodiscard]] double at(std::int64_t step) const noexcept;
    /// Returns the learning rate after the warm-up: base × factor.
    [[nodiscard]] double scaled() const noexcept { return scaled_; }

private:
    double base_;
    double scaled_;
    std::int64_t warmup_steps_;
};

}  // namespace rueda::training
