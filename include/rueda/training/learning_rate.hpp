// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Learning rates for a job whose global batch grows with the number of workers. A policy scales the rate, a warm-up
/// leads from the base rate to the scaled rate, and a schedule lowers the rate later. There is no communication. Except
/// in Plateau, there is no state: the rate depends only on the step, so a resumed job has exactly the same rates.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rueda/rueda.h"
#include "rueda/training/parameters.hpp"

namespace rueda::training {

/// How the factor for the base rate follows from the number of workers (processes).
enum class ScalingPolicy : std::int32_t {
    none,    ///< the factor is 1, for a global batch that stays the same
    linear,  ///< the factor is `workers`: the linear scaling rule of Goyal et al. 2017 (arXiv:1706.02677, section 2.1)
    sqrt,    ///< the factor is √workers, which keeps the variance of the update (Krizhevsky 2014, arXiv:1404.5997,
             ///< section 5)
    capped,  ///< the factor is `workers`, but at most `cap`. For example, the base rate 0.001 and the cap 1.5 give the
             ///< rate 0.0015 with 2 or more workers
    adasum,  ///< the factor is 1, for ReduceOp::adasum. Adasum itself adds gradients that point in different directions
             ///< and averages gradients that are equal (Maleki et al. 2021, arXiv:2006.02924, section 3)
};

/// Returns "none", "linear", "sqrt", "capped" or "adasum".
[[nodiscard]] RUEDA_API std::string_view name_of(ScalingPolicy policy) noexcept;

/// Returns the policy with this name. Throws InvalidArgument, with the list of names, for any other text.
[[nodiscard]] RUEDA_API ScalingPolicy parse_scaling_policy(std::string_view name);

/// Multiplies the rate by `factor` at each milestone (torch.optim.lr_scheduler.MultiStepLR).
struct StepDecay {
    std::vector<std::int64_t> milestones;  ///< the steps at which the rate falls, in ascending order, ≥ 0; each of
                                           ///< these steps already has the lower rate
    double factor = 0.1;                   ///< finite and > 0
};

/// Lowers the rate along half a cosine wave, from the end of the warm-up to step `last_step` (Loshchilov and Hutter
/// 2017, arXiv:1608.03983, equation 5, without restarts). After step `last_step`, the rate stays at floor × the scaled
/// rate.
struct CosineDecay {
    std::int64_t last_step = 0;  ///< the step at which the decay ends; greater than the number of warm-up steps
    double floor = 0.0;          ///< 0 ≤ floor ≤ 1
};

/// What lowers the rate after the warm-up. With std::monostate, nothing lowers it.
using Schedule = std::variant<std::monostate, StepDecay, CosineDecay>;

struct LearningRateOptions {
    double base = 0.0;  ///< the learning rate for one worker; finite and > 0
    ScalingPolicy policy = ScalingPolicy::none;
    int workers = 1;                ///< usually rueda::size(); ≥ 1
    double cap = 1.5;               ///< the largest factor of ScalingPolicy::capped; finite and ≥ 1
    std::int64_t warmup_steps = 0;  ///< number of steps from the base rate to the scaled rate; 0 for no warm-up
    /// The policy scales the rate only if there are at least this many workers. With fewer, the factor is 1. ≥ 1.
    int scale_from = 1;
    Schedule schedule = {};
};

/// Sets policy, cap and scale_from from one text, for example from a setting of the program: `POLICY[:CAP][@WORKERS]`.
/// "linear" is the linear policy. "capped:1.5@4" is the capped policy with the cap 1.5, for 4 or more workers: the rate
/// 0.001 becomes 0.0015, but stays 0.001 with fewer workers. Only capped has a cap. For any other text, throws
/// InvalidArgument with the text and the expected form, and does not change `options`.
RUEDA_API void apply_scaling(LearningRateOptions& options, std::string_view text);

/// Returns rate / previous_rate. This factor is for trainers whose momentum contains the rate: v ← m v + η g; w ← w − v
/// (Goyal et al. 2017, section 3, equation 10). When the rate changes, such a trainer must multiply its momentum by the
/// factor. The momentum of Sgd and of PyTorch does not contain the rate and needs no correction. Throws InvalidArgument
/// unless both rates are finite and > 0.
[[nodiscard]] RUEDA_API double momentum_correction(double previous_rate, double rate);

/// Computes the learning rate of every step: base × factor, after a gradual warm-up (Goyal et al. 2017, section 2.2),
/// and lowered by the schedule. In the warm-up, the rate starts at the base rate and grows by the same amount in each
/// step, until it reaches the scaled rate after `warmup_steps` steps. Threads: the object does not change, so any
/// thread may use it.
class RUEDA_API LearningRate {
public:
    /// Throws InvalidArgument if an option is out of its range; the message names the option.
    explicit LearningRate(const LearningRateOptions& options);

    /// Returns the learning rate of step `step`. Steps are counted from 0 over the whole training, not from the last
    /// resume. A negative number counts as 0.
    [[nodiscard]] double at(std::int64_t step) const noexcept;
    /// Returns the learning rate after the warm-up: base × factor.
    [[nodiscard]] double scaled() const noexcept { return scaled_; }
    /// Returns one line for the log. It contains the rate before and after the scaling, and the reason, for example
    /// "learning rate: 0.001 becomes 0.0015 with 4 workers (policy capped: the factor is 1.5, the smaller of 4 workers
    /// and the cap 1.5)".
    [[nodiscard]] std::string summary() const;

private:
    LearningRateOptions options_;
    double scaled_;
};

struct PlateauOptions {
    double factor = 0.1;  ///< the rate is multiplied by this number; 0 < factor < 1
    /// The rate is lowered when more than this many observations in a row bring no improvement. ≥ 0.
    std::int64_t patience = 10;
    /// A metric is an improvement if it is better than the best metric so far by more than this fraction of the best
    /// metric. ≥ 0, and below 1 if smaller metrics are better.
    double threshold = 1e-4;
    /// After the rate was lowered, this many observations do not count for `patience`. ≥ 0.
    std::int64_t cooldown = 0;
    double least = 0.0;             ///< the smallest factor; 0 ≤ least ≤ 1
    bool larger_is_better = false;  ///< true for an accuracy, false for a loss
};

/// Lowers the rate when a metric stops improving, as torch.optim.lr_scheduler.ReduceLROnPlateau does with a relative
/// threshold. Multiply the rate by factor(). All ranks must observe the same metric, so reduce it first; otherwise the
/// ranks' rates would differ. Threads: one thread at a time may call its functions.
class RUEDA_API Plateau {
public:
    /// Throws InvalidArgument if an option is out of its range; the message names the option.
    explicit Plateau(const PlateauOptions& options = {});

    /// Call this with the metric of each evaluation. Returns true if the call has lowered the factor. A NaN is no
    /// improvement.
    bool observe(double metric);
    [[nodiscard]] double factor() const noexcept { return state_[kFactor]; }
    /// Returns the state, "learning_rate.plateau", for checkpoints. The view is valid until the object is moved or
    /// destroyed.
    [[nodiscard]] NamedTensor state();

private:
    enum Entry : std::size_t { kFactor, kBest, kBad, kResting, kEntries };

    PlateauOptions options_;
    std::array<double, kEntries> state_{};
};

}  // namespace rueda::training
