// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/learning_rate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <string>
#include <system_error>

#include "rueda/error.hpp"

namespace rueda::training {
namespace {

constexpr std::array kPolicies = {ScalingPolicy::none, ScalingPolicy::linear, ScalingPolicy::sqrt,
                                  ScalingPolicy::capped, ScalingPolicy::adasum};

double factor_of(const LearningRateOptions& options) {
    const double workers = options.workers;
    const bool is_small = options.workers < options.scale_from;
    switch (options.policy) {
        case ScalingPolicy::none:
        case ScalingPolicy::adasum:
            return 1.0;
        case ScalingPolicy::linear:
            return is_small ? 1.0 : workers;
        case ScalingPolicy::sqrt:
            return is_small ? 1.0 : std::sqrt(workers);
        case ScalingPolicy::capped:
            return is_small ? 1.0 : std::min(workers, options.cap);
    }
    throw InvalidArgument(fmt::format("learning-rate policy number {} is unknown; use one of 0 to {}",
                                      static_cast<int>(options.policy), kPolicies.size() - 1));
}

void check_schedule(const StepDecay& schedule) {
    if (!std::isfinite(schedule.factor) || schedule.factor <= 0.0) {
        throw InvalidArgument(fmt::format(
            "learning rate: the factor of the step decay is {}; it must be a number above 0", schedule.factor));
    }
    std::int64_t previous = 0;
    for (const std::int64_t milestone : schedule.milestones) {
        if (milestone < previous) {
            throw InvalidArgument(
                fmt::format("learning rate: the step decay has the milestone {} after {}; milestones must be ascending "
                            "and not negative",
                            milestone, previous));
        }
        previous = milestone;
    }
}

void check_schedule(const CosineDecay& schedule, std::int64_t warmup_steps) {
    if (schedule.last_step <= warmup_steps) {
        throw InvalidArgument(
            fmt::format("learning rate: the last step of the cosine decay is {}; it must be greater than the number of "
                        "warm-up steps, {}",
                        schedule.last_step, warmup_steps));
    }
    if (!(schedule.floor >= 0.0 && schedule.floor <= 1.0)) {
        throw InvalidArgument(fmt::format(
            "learning rate: the floor of the cosine decay is {}; it must be at least 0 and at most 1", schedule.floor));
    }
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
    if (options.scale_from < 1) {
        throw InvalidArgument(
            fmt::format("learning rate: scale_from is {}; it must be at least 1", options.scale_from));
    }
    if (const auto* const step_decay = std::get_if<StepDecay>(&options.schedule)) {
        check_schedule(*step_decay);
    } else if (const auto* const cosine = std::get_if<CosineDecay>(&options.schedule)) {
        check_schedule(*cosine, options.warmup_steps);
    }
}

/// Returns the reason for the factor, as summary() shows it.
std::string reason_for(const LearningRateOptions& options, double factor) {
    if (options.policy == ScalingPolicy::none) {
        return "the rate is not scaled";
    }
    if (options.policy == ScalingPolicy::adasum) {
        return "Adasum adapts the sum of the gradients itself, so the rate is not scaled";
    }
    if (options.workers < options.scale_from) {
        return fmt::format("it scales the rate from {} workers on", options.scale_from);
    }
    switch (options.policy) {
        case ScalingPolicy::linear:
            return fmt::format("the factor is {:.6g}, the number of workers", factor);
        case ScalingPolicy::sqrt:
            return fmt::format("the factor is {:.6g}, the square root of the number of workers", factor);
        default:
            return fmt::format("the factor is {:.6g}, the smaller of {} workers and the cap {:.6g}", factor,
                               options.workers, options.cap);
    }
}

double cosine_factor(const CosineDecay& cosine, std::int64_t warmup_steps, std::int64_t step) {
    if (step >= cosine.last_step) {
        return cosine.floor;
    }
    const double progress =
        static_cast<double>(step - warmup_steps) / static_cast<double>(cosine.last_step - warmup_steps);
    return cosine.floor + (1.0 - cosine.floor) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

double schedule_factor(const LearningRateOptions& options, std::int64_t step) {
    if (const auto* const step_decay = std::get_if<StepDecay>(&options.schedule)) {
        double factor = 1.0;
        for (const std::int64_t milestone : step_decay->milestones) {
            factor *= step >= milestone ? step_decay->factor : 1.0;
        }
        return factor;
    }
    if (const auto* const cosine = std::get_if<CosineDecay>(&options.schedule)) {
        return step >= options.warmup_steps ? cosine_factor(*cosine, options.warmup_steps, step) : 1.0;
    }
    return 1.0;
}

/// Reads a whole text as a number.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
    Number number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

[[noreturn]] void refuse_scaling(std::string_view text, std::string_view reason) {
    throw InvalidArgument(
        fmt::format("learning-rate scaling '{}': {}; expected POLICY[:CAP][@WORKERS], for example "
                    "linear, sqrt@2 or capped:1.5@4",
                    text, reason));
}

void check_plateau(const PlateauOptions& options) {
    const auto refuse = [](std::string_view option, auto value, std::string_view expected) {
        throw InvalidArgument(fmt::format("plateau: {} is {}; it must be {}", option, value, expected));
    };
    if (!(options.factor > 0.0 && options.factor < 1.0)) {
        refuse("factor", options.factor, "above 0 and below 1");
    }
    if (options.patience < 0) {
        refuse("patience", options.patience, "at least 0");
    }
    if (!std::isfinite(options.threshold) || options.threshold < 0.0) {
        refuse("threshold", options.threshold, "finite and at least 0");
    }
    if (!options.larger_is_better && options.threshold >= 1.0) {
        // At first, the best metric is infinite. A metric counts as better if it is below best × (1 − threshold). With
        // a threshold of 1 or more, this limit is NaN or −infinity at first, and no metric is below it.
        refuse("threshold", options.threshold, "below 1 if a smaller metric is better");
    }
    if (options.cooldown < 0) {
        refuse("cooldown", options.cooldown, "at least 0");
    }
    if (!(options.least >= 0.0 && options.least <= 1.0)) {
        refuse("least", options.least, "at least 0 and at most 1");
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
        case ScalingPolicy::adasum:
            return "adasum";
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

void apply_scaling(LearningRateOptions& options, std::string_view text) {
    const std::size_t at = text.find('@');
    const std::string_view before = text.substr(0, at);
    const std::size_t colon = before.find(':');
    LearningRateOptions changed = options;
    changed.policy = parse_scaling_policy(before.substr(0, colon));
    changed.scale_from = 1;
    if (colon != std::string_view::npos) {
        const std::optional<double> cap = number_in<double>(before.substr(colon + 1));
        if (changed.policy != ScalingPolicy::capped) {
            refuse_scaling(text, "only the policy capped has a cap");
        }
        if (!cap || !std::isfinite(*cap) || *cap < 1.0) {
            refuse_scaling(text,
                           fmt::format("the cap is '{}' and must be a number from 1 on", before.substr(colon + 1)));
        }
        changed.cap = *cap;
    }
    if (at != std::string_view::npos) {
        const std::optional<int> workers = number_in<int>(text.substr(at + 1));
        if (!workers || *workers < 1) {
            refuse_scaling(text, fmt::format("the number of workers is '{}' and must be an integer from 1 on",
                                             text.substr(at + 1)));
        }
        changed.scale_from = *workers;
    }
    options = changed;
}

double momentum_correction(double previous_rate, double rate) {
    for (const double each : {previous_rate, rate}) {
        if (!std::isfinite(each) || each <= 0.0) {
            throw InvalidArgument(fmt::format(
                "momentum correction from the rate {} to {}: both must be numbers above 0", previous_rate, rate));
        }
    }
    return rate / previous_rate;
}

LearningRate::LearningRate(const LearningRateOptions& options) : options_(options), scaled_(options.base) {
    check(options);
    scaled_ = options.base * factor_of(options);
}

double LearningRate::at(std::int64_t step) const noexcept {
    const std::int64_t counted = std::max<std::int64_t>(step, 0);
    const double decay = schedule_factor(options_, counted);
    if (counted >= options_.warmup_steps) {
        return scaled_ * decay;
    }
    const double progress = static_cast<double>(counted) / static_cast<double>(options_.warmup_steps);
    return (options_.base + (scaled_ - options_.base) * progress) * decay;
}

std::string LearningRate::summary() const {
    const double factor = factor_of(options_);
    std::string text =
        fmt::format("learning rate: {:.6g} {} {:.6g} with {} worker{} (policy {}: {})", options_.base,
                    factor == 1.0 ? "stays" : "becomes", scaled_, options_.workers, options_.workers == 1 ? "" : "s",
                    name_of(options_.policy), reason_for(options_, factor));
    if (options_.warmup_steps > 0) {
        text += fmt::format("; warm-up over {} steps", options_.warmup_steps);
    }
    if (const auto* const step_decay = std::get_if<StepDecay>(&options_.schedule)) {
        text +=
            fmt::format("; multiplied by {:.6g} at {} milestones", step_decay->factor, step_decay->milestones.size());
    } else if (const auto* const cosine = std::get_if<CosineDecay>(&options_.schedule)) {
        text += fmt::format("; cosine decay to {:.6g} until step {}", scaled_ * cosine->floor, cosine->last_step);
    }
    return text;
}

Plateau::Plateau(const PlateauOptions& options) : options_(options) {
    check_plateau(options);
    const double infinite = std::numeric_limits<double>::infinity();
    state_[kFactor] = 1.0;
    state_[kBest] = options.larger_is_better ? -infinite : infinite;
}

bool Plateau::observe(double metric) {
    double& best = state_[kBest];
    // If the best value is negative, the threshold has the opposite effect: even a metric that is a little worse than
    // the best one counts as better. PyTorch does the same.
    const bool improved = options_.larger_is_better ? metric > best * (1.0 + options_.threshold)
                                                    : metric < best * (1.0 - options_.threshold);
    if (improved) {
        best = metric;
        state_[kBad] = 0.0;
    } else {
        state_[kBad] += 1.0;
    }
    if (state_[kResting] > 0.0) {
        state_[kResting] -= 1.0;
        state_[kBad] = 0.0;
    }
    if (state_[kBad] <= static_cast<double>(options_.patience)) {
        return false;
    }
    const double lowered = std::max(state_[kFactor] * options_.factor, options_.least);
    const bool changed = lowered < state_[kFactor];
    state_[kFactor] = lowered;
    state_[kResting] = static_cast<double>(options_.cooldown);
    state_[kBad] = 0.0;
    return changed;
}

NamedTensor Plateau::state() { return {"learning_rate.plateau", TensorView(state_)}; }

}  // namespace rueda::training
