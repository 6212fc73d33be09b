// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/optimizer.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <type_traits>
#include <utility>

#include "rueda/error.hpp"
#include "training/optimizers/kernels.hpp"

namespace rueda::training {
namespace {

/// The range in which an option of a rule must be.
struct Bounds {
    double from = 0.0;
    double to = std::numeric_limits<double>::infinity();
    bool excludes_from = false;  ///< if true, the value must be above `from`
    bool excludes_to = true;

    [[nodiscard]] bool contain(double value) const noexcept {
        return std::isfinite(value) && (excludes_from ? value > from : value >= from) &&
               (excludes_to ? value < to : value <= to);
    }
    [[nodiscard]] std::string text() const {
        const std::string lowest = fmt::format("{} {}", excludes_from ? "above" : "at least", from);
        return std::isinf(to) ? lowest : fmt::format("{} and {} {}", lowest, excludes_to ? "below" : "at most", to);
    }
};

constexpr Bounds kNotNegative{};
constexpr Bounds kFraction{.to = 1.0};
constexpr Bounds kShare{.to = 1.0, .excludes_to = false};
constexpr Bounds kPositive{.excludes_from = true};
/// If all gradients of an element were 0, its step is divided by ε alone. So ε must not become 0 in float32. The lower
/// bound is the smallest normal number of float32.
constexpr Bounds kDenominator{.from = std::numeric_limits<float>::min()};

/// Throws InvalidArgument unless the option's value is allowed.
class RuleCheck {
public:
    explicit RuleCheck(std::string_view rule) : rule_(rule) {}
    const RuleCheck& operator()(std::string_view option, double value, const Bounds& bounds) const {
        if (!bounds.contain(value)) {
            throw InvalidArgument(
                fmt::format("optimizer {}: {} is {}; it must be finite, {}", rule_, option, value, bounds.text()));
        }
        return *this;
    }

private:
    std::string_view rule_;
};

void check_rule(const Sgd& rule) {
    RuleCheck("sgd")("momentum", rule.momentum, kFraction)("dampening", rule.dampening, kShare)(
        "weight_decay", rule.weight_decay, kNotNegative);
    if (rule.nesterov && (rule.momentum == 0.0 || rule.dampening != 0.0)) {
        throw InvalidArgument(
            fmt::format("optimizer sgd: nesterov is set with momentum {} and dampening {}; it needs a momentum above 0 "
                        "and a dampening of 0",
                        rule.momentum, rule.dampening));
    }
}

void check_moments(const RuleCheck& check, double beta1, double beta2, double epsilon, double weight_decay) {
    check("beta1", beta1, kFraction)("beta2", beta2, kFraction)("epsilon", epsilon, kDenominator)(
        "weight_decay", weight_decay, kNotNegative);
}

void check_rule(const Adam& rule) {
    check_moments(RuleCheck("adam"), rule.beta1, rule.beta2, rule.epsilon, rule.weight_decay);
}
void check_rule(const AdamW& rule) {
    check_moments(RuleCheck("adamw"), rule.beta1, rule.beta2, rule.epsilon, rule.weight_decay);
}
void check_rule(const Lamb& rule) {
    check_moments(RuleCheck("lamb"), rule.beta1, rule.beta2, rule.epsilon, rule.weight_decay);
}
void check_rule(const Adagrad& rule) {
    RuleCheck("adagrad")("rate_decay", rule.rate_decay, kNotNegative)("initial_accumulator", rule.initial_accumulator,
                                                                      kNotNegative)(
        "epsilon", rule.epsilon, static_cast<float>(rule.initial_accumulator) > 0.0F ? kNotNegative : kDenominator)(
        "weight_decay", rule.weight_decay, kNotNegative);
}
void check_rule(const Ftrl& rule) {
    RuleCheck("ftrl")("beta", rule.beta, kNotNegative)("l1", rule.l1, kNotNegative)("l2", rule.l2, kNotNegative)(
        "initial_accumulator", rule.initial_accumulator, kNotNegative);
    if (static_cast<float>(rule.beta) == 0.0F && static_cast<float>(rule.initial_accumulator) == 0.0F) {
        throw InvalidArgument(
            "optimizer ftrl: beta and initial_accumulator are both 0 in float32; one of them must be above 0, because "
            "the update divides by beta + √n");
    }
}

void check_parameters(std::span<const Parameter> parameters) {
    std::set<std::string_view> names;
    for (const Parameter& each : parameters) {
        if (each.name.empty()) {
            throw InvalidArgument("optimizer: a parameter has no name; give each parameter its own name");
        }
        if (!names.insert(each.name).second) {
            throw InvalidArgument(
                fmt::format("optimizer: two parameters have the name '{}'; give each its own name", each.name));
        }
        if (each.values.size() != each.gradient.size()) {
            throw InvalidArgument(
                fmt::format("optimizer: parameter '{}' has {} values and {} gradients; the numbers must be equal",
                            each.name, each.values.size(), each.gradient.size()));
        }
    }
}

/// The names of a rule's state tensors and their initial value. If a name is empty, the rule does not have this tensor.
struct StateLayout {
    std::array<std::string_view, 2> names;
    float initial_first = 0.0F;
    float initial_second = 0.0F;
};

StateLayout layout_of(const Sgd& rule) { return {.names = {rule.momentum > 0.0 ? "momentum" : "", ""}}; }
StateLayout layout_of(const Adam& /*rule*/) { return {.names = {"first_moment", "second_moment"}}; }
StateLayout layout_of(const AdamW& /*rule*/) { return {.names = {"first_moment", "second_moment"}}; }
StateLayout layout_of(const Lamb& /*rule*/) { return {.names = {"first_moment", "second_moment"}}; }
StateLayout layout_of(const Adagrad& rule) {
    return {.names = {"squares", ""}, .initial_first = static_cast<float>(rule.initial_accumulator)};
}
StateLayout layout_of(const Ftrl& rule) {
    return {.names = {"linear", "squares"}, .initial_second = static_cast<float>(rule.initial_accumulator)};
}

/// Returns 1 − beta^step. With expm1(), no digits are lost if beta is near 1.
double bias_correction(double beta, std::int64_t step) {
    return beta == 0.0 ? 1.0 : -std::expm1(static_cast<double>(step) * std::log(beta));
}

SgdUpdate update_of(const Sgd& rule, const StepNumbers& step, bool decays) {
    return {.factor = static_cast<float>(step.factor),
            .rate = static_cast<float>(step.rate),
            .momentum = static_cast<float>(rule.momentum),
            .undamped = static_cast<float>(step.number == 1 ? 1.0 : 1.0 - rule.dampening),
            .decay = static_cast<float>(decays ? rule.weight_decay : 0.0),
            .nesterov = rule.nesterov};
}

template <class Rule>
AdamUpdate adam_update(const Rule& rule, const StepNumbers& step, double decay, double shrink) {
    return {.factor = static_cast<float>(step.factor),
            .rate = static_cast<float>(step.rate / bias_correction(rule.beta1, step.number)),
            .first_share = static_cast<float>(1.0 - rule.beta1),
            .beta2 = static_cast<float>(rule.beta2),
            .second_share = static_cast<float>(1.0 - rule.beta2),
            .second_correction = static_cast<float>(1.0 / std::sqrt(bias_correction(rule.beta2, step.number))),
            .epsilon = static_cast<float>(rule.epsilon),
            .decay = static_cast<float>(decay),
            .shrink = static_cast<float>(shrink)};
}

AdamUpdate update_of(const Adam& rule, const StepNumbers& step, bool decays) {
    return adam_update(rule, step, decays ? rule.weight_decay : 0.0, 1.0);
}

AdamUpdate update_of(const AdamW& rule, const StepNumbers& step, bool decays) {
    return adam_update(rule, step, 0.0, decays ? 1.0 - step.rate * rule.weight_decay : 1.0);
}

AdagradUpdate update_of(const Adagrad& rule, const StepNumbers& step, bool decays) {
    return {.factor = static_cast<float>(step.factor),
            .rate = static_cast<float>(step.rate / (1.0 + static_cast<double>(step.number - 1) * rule.rate_decay)),
            .epsilon = static_cast<float>(rule.epsilon),
            .decay = static_cast<float>(decays ? rule.weight_decay : 0.0)};
}

FtrlUpdate update_of(const Ftrl& rule, const StepNumbers& step, bool /*decays*/) {
    return {.factor = static_cast<float>(step.factor),
            .inverse_rate = static_cast<float>(1.0 / step.rate),
            .inverse_change = static_cast<float>(1.0 / step.rate - 1.0 / step.previous_rate),
            .beta = static_cast<float>(rule.beta),
            .l1 = static_cast<float>(rule.l1),
            .l2 = static_cast<float>(rule.l2)};
}

LambUpdate update_of(const Lamb& rule, const StepNumbers& step, bool decays) {
    return {.factor = static_cast<float>(step.factor),
            .rate = step.rate,
            .first_share = static_cast<float>(1.0 - rule.beta1),
            .beta2 = static_cast<float>(rule.beta2),
            .second_share = static_cast<float>(1.0 - rule.beta2),
            .first_correction = static_cast<float>(1.0 / bias_correction(rule.beta1, step.number)),
            .second_correction = static_cast<float>(1.0 / std::sqrt(bias_correction(rule.beta2, step.number))),
            .epsilon = static_cast<float>(rule.epsilon),
            .decay = static_cast<float>(decays ? rule.weight_decay : 0.0),
            .adapts = decays};
}

}  // namespace

std::string_view name_of(const OptimizerRule& rule) noexcept {
    static constexpr std::array<std::string_view, std::variant_size_v<OptimizerRule>> kNames = {
        "sgd", "adam", "adamw", "adagrad", "ftrl", "lamb"};
    return rule.valueless_by_exception() ? "no rule" : kNames[rule.index()];
}

struct Optimizer::State {
    OptimizerRule rule;
    std::vector<Parameter> parameters;
    std::array<std::string_view, 2> names;
    /// The state tensors of each parameter. A tensor that the rule does not have is empty.
    std::vector<std::array<std::vector<float>, 2>> tensors;
    std::int64_t steps = 0;
    double last_rate = 0.0;  ///< the learning rate of the last step, for Ftrl; 0 before the first step
    StepNumbers step;
};

Optimizer::Optimizer(const OptimizerRule& rule, std::vector<Parameter> parameters) : state_(std::make_unique<State>()) {
    std::visit([](const auto& each) { check_rule(each); }, rule);
    check_parameters(parameters);
    const StateLayout layout = std::visit([](const auto& each) { return layout_of(each); }, rule);
    state_->rule = rule;
    state_->parameters = std::move(parameters);
    state_->names = layout.names;
    for (const Parameter& each : state_->parameters) {
        auto& tensors = state_->tensors.emplace_back();
        if (!layout.names[0].empty()) {
            tensors[0].assign(each.values.size(), layout.initial_first);
        }
        if (!layout.names[1].empty()) {
            tensors[1].assign(each.values.size(), layout.initial_second);
        }
    }
}
Optimizer::Optimizer(Optimizer&& other) noexcept = default;
Optimizer& Optimizer::operator=(Optimizer&& other) noexcept = default;
Optimizer::~Optimizer() = default;

void Optimizer::step(double learning_rate, double gradient_factor) {
    begin_step(learning_rate, gradient_factor);
    for (std::size_t i = 0; i < state_->parameters.size(); ++i) {
        update(i);
    }
}

void Optimizer::begin_step(double learning_rate, double gradient_factor) {
    const bool is_ftrl = std::holds_alternative<Ftrl>(state_->rule);
    RuleCheck(name_of(state_->rule))("the learning rate", learning_rate, is_ftrl ? kPositive : kNotNegative);
    if (!std::isfinite(gradient_factor)) {
        throw InvalidArgument(fmt::format("optimizer {}: the gradient's factor is {}; it must be finite",
                                          name_of(state_->rule), gradient_factor));
    }
    if (state_->steps < 0) {
        throw InvalidArgument(
            fmt::format("optimizer {0}: the state 'optimizer.{0}.steps' is {1}; it must not be "
                        "negative. Restore a correct checkpoint",
                        name_of(state_->rule), state_->steps));
    }
    if (is_ftrl && !(std::isfinite(state_->last_rate) && state_->last_rate >= 0.0)) {
        throw InvalidArgument(
            fmt::format("optimizer ftrl: the state 'optimizer.ftrl.rate' is {}; it must be finite, at least 0. Restore "
                        "a correct checkpoint",
                        state_->last_rate));
    }
    state_->step = {.number = ++state_->steps,
                    .rate = learning_rate,
                    .previous_rate = state_->last_rate > 0.0 ? state_->last_rate : learning_rate,
                    .factor = gradient_factor};
    state_->last_rate = learning_rate;
}

void Optimizer::update(std::size_t index) {
    if (index >= state_->parameters.size()) {
        throw InvalidArgument(fmt::format("optimizer: parameter number {} does not exist; there are {} parameters",
                                          index, state_->parameters.size()));
    }
    if (state_->step.number == 0) {
        throw InvalidArgument("optimizer: update() was called before begin_step(); call begin_step() first");
    }
    const Parameter& parameter = state_->parameters[index];
    auto& tensors = state_->tensors[index];
    const UpdateMemory memory{.values = parameter.values.data(),
                              .gradient = parameter.gradient.data(),
                              .first = state_->names[0].empty() ? nullptr : tensors[0].data(),
                              .second = state_->names[1].empty() ? nullptr : tensors[1].data(),
                              .count = parameter.values.size()};
    std::visit([&](const auto& rule) { update_elements(update_of(rule, state_->step, parameter.decays), memory); },
               state_->rule);
}

std::span<const Parameter> Optimizer::parameters() const noexcept { return state_->parameters; }
std::int64_t Optimizer::steps() const noexcept { return state_->steps; }

std::vector<NamedTensor> Optimizer::state() {
    const std::string_view rule = name_of(state_->rule);
    std::vector<NamedTensor> all;
    all.push_back({fmt::format("optimizer.{}.steps", rule), TensorView(&state_->steps, DType::int64, Shape{1})});
    if (std::holds_alternative<Ftrl>(state_->rule)) {
        all.push_back({"optimizer.ftrl.rate", TensorView(&state_->last_rate, DType::float64, Shape{1})});
    }
    for (std::size_t i = 0; i < state_->parameters.size(); ++i) {
        for (std::size_t slot = 0; slot < state_->names.size(); ++slot) {
            if (!state_->names[slot].empty()) {
                all.push_back({fmt::format("optimizer.{}.{}.{}", rule, state_->names[slot], state_->parameters[i].name),
                               TensorView(state_->tensors[i][slot])});
            }
        }
    }
    return all;
}

}  // namespace rueda::training
