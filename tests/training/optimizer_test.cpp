// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the optimizers. If PyTorch has the same optimizer, test_optimizers.py compares the two.
#include "rueda/training/optimizer.hpp"

#include <hwy/targets.h>

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "rueda/error.hpp"
#include "rueda/training/checkpoint.hpp"
#include "rueda/training/random.hpp"
#include "tests/support/folder.hpp"
#include "tests/training/messages.hpp"
#include "training/optimizers/kernels.hpp"

namespace rueda::training {
namespace {
using Catch::Matchers::Contains;
using test::message_of;

constexpr std::size_t kCount = 517;  ///< more than one block of LAMB, and no whole number of vectors
constexpr int kSteps = 12;

const std::vector<OptimizerRule>& all_rules() {
    static const std::vector<OptimizerRule> rules = {Sgd{},
                                                     Sgd{.momentum = 0.9, .nesterov = true, .weight_decay = 0.01},
                                                     Adam{.weight_decay = 0.01},
                                                     AdamW{},
                                                     Adagrad{},
                                                     Ftrl{.l1 = 0.05, .l2 = 0.1},
                                                     Lamb{}};
    return rules;
}

/// Values and gradients of a model, and the gradients of each step.
struct Model {
    std::vector<float> values = std::vector<float>(kCount);
    std::vector<float> gradient = std::vector<float>(kCount);

    explicit Model(std::uint64_t seed = 1) {
        Random random(seed);
        for (float& value : values) {
            value = static_cast<float>(random.uniform() - 0.5);
        }
    }
    void next_gradient(int step) {
        Random random(7, static_cast<std::uint64_t>(step));
        for (std::size_t i = 0; i < kCount; ++i) {
            const double size = std::pow(10.0, -4.0 + 5.0 * static_cast<double>(i) / kCount);
            gradient[i] = static_cast<float>((random.uniform() - 0.5) * size);
        }
    }
    /// Returns the parameters of the model. At each index in `cuts`, a new parameter begins.
    std::vector<Parameter> parameters(std::vector<std::size_t> cuts = {}) {
        std::vector<Parameter> all;
        cuts.push_back(kCount);
        std::size_t begin = 0;
        for (const std::size_t end : cuts) {
            all.push_back({"w" + std::to_string(all.size()), std::span(values).subspan(begin, end - begin),
                           std::span(gradient).subspan(begin, end - begin)});
            begin = end;
        }
        return all;
    }
};

std::vector<float> trained(const OptimizerRule& rule, std::vector<std::size_t> cuts = {}) {
    Model model;
    Optimizer optimizer(rule, model.parameters(std::move(cuts)));
    for (int step = 0; step < kSteps; ++step) {
        model.next_gradient(step);
        optimizer.step(0.05 / (1 + step), 0.5);
    }
    CHECK(optimizer.steps() == kSteps);
    return model.values;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_CASE("every SIMD target gives the same bits", "[training]") {
    for (const OptimizerRule& rule : all_rules()) {
        const std::vector<float> best = trained(rule);
        CHECK_FALSE(same_bits(best, Model().values));
        for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
            hwy::SetSupportedTargetsForTest(target);
            INFO(name_of(rule) << " on " << hwy::TargetName(target));
            CHECK(same_bits(trained(rule), best));
        }
        hwy::SetSupportedTargetsForTest(0);
    }
}

TEST_CASE("dividing a tensor does not change the bits of element-wise rules", "[training]") {
    for (const OptimizerRule& rule : all_rules()) {
        INFO(name_of(rule));
        const bool same = same_bits(trained(rule, {1, 18, 18, 300}), trained(rule));
        CHECK(same != std::holds_alternative<Lamb>(rule));
    }
}

/// Learning rates with a warm-up, a plateau, a sudden fall and a slow decay.
double changing_rate(int step) {
    constexpr std::array<double, kSteps> kRates = {0.01, 0.02,  0.04,  0.08,  0.08,  0.08,
                                                   0.08, 0.008, 0.007, 0.006, 0.005, 0.02};
    return kRates[static_cast<std::size_t>(step)];
}

/// Computes one coordinate of FTRL-Proximal (McMahan et al. 2013, section 3) in float64. The next weight w minimises
/// this sum: g₁:t w + ½ Σ σ_s (w − w_s)² + l1 |w| + ½ l2 w². The σ are defined by σ₁:t = 1 / η_t and
/// η_t = α_t / (β + √n_t). Before the first step, Σ has one term, whose centre w_s is 0. Bisection finds the minimum.
class FtrlCoordinate {
public:
    FtrlCoordinate(const Ftrl& rule, double w, double squares) : rule_(rule), squares_(squares), weights_{w} {}

    void step(double alpha, double g) {
        if (gradients_.empty()) {
            centres_ = {0.0};
            sigmas_ = {(rule_.beta + std::sqrt(squares_)) / alpha};
        }
        squares_ += g * g;
        gradients_.push_back(g);
        centres_.push_back(weights_.back());
        sigmas_.push_back((rule_.beta + std::sqrt(squares_)) / alpha -
                          std::accumulate(sigmas_.begin(), sigmas_.end(), 0.0));
        weights_.push_back(minimum());
    }
    [[nodiscard]] double weight() const { return weights_.back(); }

private:
    /// Returns the derivative of the function to minimise at w, without the derivative of l1 |w|.
    [[nodiscard]] double slope(double w) const {
        double sum = std::accumulate(gradients_.begin(), gradients_.end(), 0.0) + rule_.l2 * w;
        for (std::size_t s = 0; s < sigmas_.size(); ++s) {
            sum += sigmas_[s] * (w - centres_[s]);
        }
        return sum;
    }
    [[nodiscard]] double minimum() const {
        if (std::abs(slope(0.0)) <= rule_.l1) {
            return 0.0;
        }
        const double sign = slope(0.0) > 0.0 ? -1.0 : 1.0;  // the sign of the next weight
        double low = 0.0;
        double high = 1e6;
        for (int i = 0; i < 100; ++i) {
            const double middle = 0.5 * (low + high);
            (sign * slope(sign * middle) + rule_.l1 < 0.0 ? low : high) = middle;
        }
        return sign * low;
    }

    Ftrl rule_;
    double squares_;
    std::vector<double> weights_;
    std::vector<double> gradients_;
    std::vector<double> centres_;
    std::vector<double> sigmas_;
};

TEST_CASE("FTRL minimises McMahan's function in each step, also if the learning rate changes", "[training]") {
    const Ftrl rule{.beta = 0.7, .l1 = 0.02, .l2 = 0.3, .initial_accumulator = 0.1};
    const bool is_constant = GENERATE(false, true);
    Model model;
    std::vector<FtrlCoordinate> exact;
    for (const float value : model.values) {
        exact.emplace_back(rule, value, static_cast<float>(rule.initial_accumulator));
    }
    Optimizer optimizer(rule, model.parameters());
    int zeros = 0;
    for (int step = 0; step < kSteps; ++step) {
        model.next_gradient(step);
        const double rate = is_constant ? 0.03 : changing_rate(step);
        optimizer.step(rate, 2.0);
        for (std::size_t i = 0; i < kCount; ++i) {
            exact[i].step(rate, 2.0 * static_cast<double>(model.gradient[i]));
            CHECK(model.values[i] == Approx(exact[i].weight()).epsilon(1e-4).margin(2e-6));
            zeros += model.values[i] == 0.0F ? 1 : 0;
        }
    }
    CHECK(zeros > 1000);
    CHECK(zeros < kSteps * static_cast<int>(kCount) - 1000);
}

TEST_CASE("FTRL without l1 and l2 is gradient descent, also if the learning rate changes", "[training]") {
    const Ftrl rule{.beta = 0.5};
    Model model;
    model.values.assign(kCount, 0.0F);
    std::vector<double> w(kCount, 0.0);
    std::vector<double> n(kCount, 0.0);
    Optimizer optimizer(rule, model.parameters());
    for (int step = 0; step < kSteps; ++step) {
        model.next_gradient(step);
        optimizer.step(changing_rate(step));
        for (std::size_t i = 0; i < kCount; ++i) {
            const double g = model.gradient[i];
            n[i] += g * g;
            w[i] -= changing_rate(step) / (rule.beta + std::sqrt(n[i])) * g;
            CHECK(model.values[i] == Approx(w[i]).epsilon(1e-4).margin(1e-6));
        }
    }
}

TEST_CASE("a weight that FTRL has learned stays when the learning rate falls", "[training]") {
    std::vector<float> value = {0.0F};
    std::vector<float> gradient = {0.0F};
    Optimizer optimizer(Ftrl{}, {{"w", value, gradient}});
    for (int step = 0; step < 200; ++step) {
        gradient[0] = value[0] - 2.0F;
        optimizer.step(0.5);
    }
    REQUIRE(value[0] == Approx(2.0).epsilon(0.01));
    gradient[0] = value[0] - 2.0F;
    optimizer.step(0.05);
    CHECK(value[0] == Approx(2.0).epsilon(0.01));
}

TEST_CASE("LAMB scales the update by the ratio of the norms", "[training]") {
    const Lamb rule{.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.1};
    for (const bool decays : {true, false}) {
        Model model;
        std::vector<double> w(model.values.begin(), model.values.end());
        std::vector<double> m(kCount, 0.0);
        std::vector<double> v(kCount, 0.0);
        std::vector<double> u(kCount, 0.0);
        std::vector<Parameter> parameters = model.parameters();
        parameters[0].decays = decays;
        Optimizer optimizer(rule, parameters);
        for (int step = 1; step <= kSteps; ++step) {
            model.next_gradient(step);
            optimizer.step(0.01);
            double w_squares = 0.0;
            double u_squares = 0.0;
            for (std::size_t i = 0; i < kCount; ++i) {
                const double g = model.gradient[i];
                m[i] = rule.beta1 * m[i] + (1 - rule.beta1) * g;
                v[i] = rule.beta2 * v[i] + (1 - rule.beta2) * g * g;
                u[i] = m[i] / (1 - std::pow(rule.beta1, step)) /
                           (std::sqrt(v[i] / (1 - std::pow(rule.beta2, step))) + rule.epsilon) +
                       (decays ? rule.weight_decay * w[i] : 0.0);
                w_squares += w[i] * w[i];
                u_squares += u[i] * u[i];
            }
            const double ratio = decays ? std::sqrt(w_squares / u_squares) : 1.0;
            for (std::size_t i = 0; i < kCount; ++i) {
                w[i] -= 0.01 * ratio * u[i];
                CHECK(model.values[i] == Approx(w[i]).epsilon(1e-5).margin(1e-6));
            }
        }
    }
}

TEST_CASE("LAMB's ratio is 1 if a norm is 0", "[training]") {
    std::vector<float> values(3, 0.0F);
    std::vector<float> gradient(3, 2.0F);
    Optimizer optimizer(Lamb{.epsilon = 1e-30}, {{"w", values, gradient}});
    optimizer.step(0.25);
    CHECK(values == std::vector<float>(3, -0.25F));
    std::vector<float> still(2, 1.0F);
    std::vector<float> none(2, 0.0F);
    Optimizer resting(Lamb{.weight_decay = 0.0}, {{"w", still, none}});
    resting.step(0.25);
    CHECK(still == std::vector<float>(2, 1.0F));
}

TEST_CASE("weight decay leaves out the parameters that do not decay", "[training]") {
    for (const OptimizerRule& rule :
         {OptimizerRule(Sgd{.weight_decay = 0.5}), OptimizerRule(AdamW{.weight_decay = 0.5}),
          OptimizerRule(Adagrad{.weight_decay = 0.5})}) {
        std::vector<float> weight = {2.0F};
        std::vector<float> bias = {2.0F};
        std::vector<float> zero = {0.0F};
        Optimizer optimizer(rule, {{"weight", weight, zero}, {"bias", bias, zero, false}});
        optimizer.step(0.1);
        INFO(name_of(rule));
        CHECK(weight[0] < 2.0F);
        CHECK(bias[0] == 2.0F);
    }
}

TEST_CASE("a restored optimizer continues with the same bits", "[training]") {
    const tests::Folder folder;
    for (const OptimizerRule& rule : all_rules()) {
        INFO(name_of(rule));
        Model whole;
        Optimizer uninterrupted(rule, whole.parameters({5}));
        Model first;
        auto before = std::make_unique<Optimizer>(rule, first.parameters({5}));
        for (int step = 0; step < 5; ++step) {
            whole.next_gradient(step);
            uninterrupted.step(changing_rate(step));
            first.next_gradient(step);
            before->step(changing_rate(step));
        }
        write_checkpoint(folder.file("state"), before->state());
        before.reset();
        Optimizer after(rule, first.parameters({5}));
        Checkpoint(folder.file("state")).read(after.state());
        CHECK(after.steps() == 5);
        whole.next_gradient(5);
        uninterrupted.step(0.03);
        first.next_gradient(5);
        after.step(0.03);
        CHECK(same_bits(first.values, whole.values));
    }
}

TEST_CASE("the state's names contain the rule, so another rule's state is refused", "[training]") {
    const tests::Folder folder;
    std::vector<float> values(2);
    std::vector<float> gradient(2);
    Optimizer adam(Adam{}, {{"w", values, gradient}});
    const std::vector<NamedTensor> state = adam.state();
    REQUIRE(state.size() == 3);
    CHECK(state[0].name == "optimizer.adam.steps");
    CHECK(state[1].name == "optimizer.adam.first_moment.w");
    CHECK(state[2].name == "optimizer.adam.second_moment.w");
    write_checkpoint(folder.file("adam"), state);
    Optimizer adagrad(Adagrad{}, {{"w", values, gradient}});
    CHECK_THAT(message_of<InvalidArgument>([&] { Checkpoint(folder.file("adam")).read(adagrad.state()); }),
               Contains("'optimizer.adagrad.steps'") && Contains("is not in it"));
    CHECK(Optimizer(Sgd{}, {{"w", values, gradient}}).state().size() == 1);
    CHECK(Optimizer(Sgd{.momentum = 0.5}, {{"w", values, gradient}}).state()[1].name == "optimizer.sgd.momentum.w");
}

TEST_CASE("a damaged state of FTRL is refused", "[training]") {
    std::vector<float> values(2);
    Optimizer optimizer(Ftrl{}, {{"w", values, values}});
    REQUIRE(optimizer.state()[1].name == "optimizer.ftrl.rate");
    auto* const rate = static_cast<double*>(optimizer.state()[1].tensor.data());
    optimizer.step(0.5);
    CHECK(*rate == 0.5);
    *rate = std::nan("");
    CHECK_THAT(message_of<InvalidArgument>([&] { optimizer.step(0.5); }), Contains("'optimizer.ftrl.rate' is nan"));
    CHECK(optimizer.steps() == 1);
}

TEST_CASE("step() is begin_step() and update() of every parameter, in any order", "[training]") {
    Model whole;
    Optimizer at_once(Adam{}, whole.parameters({100, 200}));
    Model pieces;
    Optimizer one_by_one(Adam{}, pieces.parameters({100, 200}));
    whole.next_gradient(0);
    pieces.next_gradient(0);
    at_once.step(0.1, 3.0);
    one_by_one.begin_step(0.1, 3.0);
    for (const std::size_t index : {2u, 0u, 1u}) {
        one_by_one.update(index);
    }
    CHECK(same_bits(whole.values, pieces.values));
}

TEST_CASE("wrong options and parameters are named", "[training]") {
    std::vector<float> two(2);
    std::vector<float> three(3);
    const auto refusal = [&](const OptimizerRule& rule) {
        return message_of<InvalidArgument>([&] { Optimizer(rule, {{"w", two, two}}); });
    };
    CHECK(refusal(Sgd{.momentum = 1.0}) == "optimizer sgd: momentum is 1; it must be finite, at least 0 and below 1");
    CHECK_THAT(refusal(Sgd{.nesterov = true}), Contains("nesterov is set with momentum 0"));
    CHECK(refusal(Adam{.beta2 = -0.5}) == "optimizer adam: beta2 is -0.5; it must be finite, at least 0 and below 1");
    CHECK(refusal(AdamW{.weight_decay = std::numeric_limits<double>::infinity()}) ==
          "optimizer adamw: weight_decay is inf; it must be finite, at least 0");
    CHECK_THAT(refusal(Adagrad{.epsilon = -1.0}), Contains("epsilon is -1"));
    for (const double epsilon : {0.0, 1e-50}) {  // the second is 0 in float32
        INFO(epsilon);
        CHECK_THAT(refusal(Adam{.epsilon = epsilon}), Contains("adam: epsilon is ") && Contains("at least 1.17"));
        CHECK_THAT(refusal(AdamW{.epsilon = epsilon}), Contains("adamw: epsilon is "));
        CHECK_THAT(refusal(Lamb{.epsilon = epsilon}), Contains("lamb: epsilon is "));
        CHECK_THAT(refusal(Adagrad{.epsilon = epsilon}), Contains("adagrad: epsilon is "));
        CHECK(refusal(Adagrad{.initial_accumulator = 0.1, .epsilon = epsilon}) == "no error");
        CHECK_THAT(refusal(Ftrl{.beta = epsilon}), Contains("beta and initial_accumulator are both 0"));
    }
    CHECK_THAT(refusal(Ftrl{.beta = 0.0}), Contains("beta and initial_accumulator are both 0"));
    CHECK_THAT(message_of<InvalidArgument>([&] {
                   Optimizer(Sgd{}, {{"w", two, three}});
               }),
               Contains("'w' has 2 values and 3 gradients"));
    CHECK_THAT(message_of<InvalidArgument>([&] {
                   Optimizer(Sgd{}, {{"w", two, two}, {"w", two, two}});
               }),
               Contains("two parameters have the name 'w'"));
    CHECK_THAT(message_of<InvalidArgument>([&] { Optimizer(Sgd{}, {{"", two, two}}); }), Contains("has no name"));
    Optimizer optimizer(Ftrl{}, {{"w", two, two}});
    CHECK_THAT(message_of<InvalidArgument>([&] { optimizer.step(0.0); }),
               Contains("learning rate is 0") && Contains("above 0"));
    CHECK_THAT(message_of<InvalidArgument>([&] { optimizer.step(0.1, std::nan("")); }), Contains("factor is nan"));
    CHECK_THAT(message_of<InvalidArgument>([&] { optimizer.update(0); }), Contains("before begin_step()"));
    CHECK_THAT(message_of<InvalidArgument>([&] { optimizer.update(1); }), Contains("number 1 does not exist"));
    CHECK(optimizer.steps() == 0);
}

TEST_CASE("sums of squares do not overflow, and show values that are not finite", "[training]") {
    std::vector<float> values(1000);
    std::iota(values.begin(), values.end(), 1.0F);
    CHECK(sum_of_squares(values) == 333833500.0);
    values.assign(21, std::numeric_limits<float>::max());
    CHECK(sum_of_squares(values) ==
          Approx(21.0 * std::pow(static_cast<double>(std::numeric_limits<float>::max()), 2.0)));
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
        for (const std::size_t place : {0u, 19u, 20u}) {
            values.assign(21, 1.0F);
            values[place] = bad;
            CHECK_FALSE(std::isfinite(sum_of_squares(values)));
        }
    }
    CHECK(sum_of_squares({}) == 0.0);
}

}  // namespace
}  // namespace rueda::training
