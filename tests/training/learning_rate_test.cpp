// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/learning_rate.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/training/messages.hpp"

namespace rueda::training {
namespace {
using Catch::Matchers::Contains;
using test::message_of;

double scaled(ScalingPolicy policy, int workers) {
    return LearningRate({.base = 0.001, .policy = policy, .workers = workers}).scaled();
}

TEST_CASE("each policy scales the base rate in its own way", "[training]") {
    CHECK(scaled(ScalingPolicy::none, 8) == 0.001);
    CHECK(scaled(ScalingPolicy::linear, 8) == Approx(0.008).epsilon(1e-15));
    CHECK(scaled(ScalingPolicy::sqrt, 9) == Approx(0.003).epsilon(1e-15));
    CHECK(scaled(ScalingPolicy::capped, 1) == 0.001);
    for (const int workers : {2, 3, 64}) {
        CHECK(scaled(ScalingPolicy::capped, workers) == Approx(0.0015).epsilon(1e-15));
    }
    CHECK(LearningRate({.base = 0.1, .policy = ScalingPolicy::capped, .workers = 3, .cap = 4.0}).scaled() ==
          Approx(0.3).epsilon(1e-15));
}

TEST_CASE("warm-up goes from the base rate to the scaled one by equal amounts", "[training]") {
    const LearningRate rate({.base = 0.1, .policy = ScalingPolicy::linear, .workers = 5, .warmup_steps = 4});
    CHECK(rate.at(0) == 0.1);
    CHECK(rate.at(1) == Approx(0.2));
    CHECK(rate.at(2) == Approx(0.3));
    CHECK(rate.at(3) == Approx(0.4));
    CHECK(rate.at(4) == Approx(0.5));
    CHECK(rate.at(1000000) == Approx(0.5));
    CHECK(LearningRate({.base = 0.1, .policy = ScalingPolicy::linear, .workers = 5}).at(0) == Approx(0.5));
    CHECK(rate.at(-1) == 0.1);
    // Without a warm-up, its length is 0. The function must not divide by this length.
    CHECK(LearningRate({.base = 0.1}).at(-1) == 0.1);
}

TEST_CASE("policies have names that read back", "[training]") {
    for (const auto policy : {ScalingPolicy::none, ScalingPolicy::linear, ScalingPolicy::sqrt, ScalingPolicy::capped,
                              ScalingPolicy::adasum}) {
        CHECK(parse_scaling_policy(name_of(policy)) == policy);
    }
    CHECK_THAT(message_of<InvalidArgument>([] { (void)parse_scaling_policy("Linear"); }),
               Contains("'Linear'") && Contains("none, linear, sqrt, capped, adasum"));
}

TEST_CASE("options out of range are named", "[training]") {
    const double infinite = std::numeric_limits<double>::infinity();
    CHECK_THAT(message_of<InvalidArgument>([] { LearningRate({.base = 0.0}); }), Contains("base is 0"));
    CHECK_THAT(message_of<InvalidArgument>([&] { LearningRate({.base = infinite}); }), Contains("base is inf"));
    CHECK_THAT(message_of<InvalidArgument>([] { LearningRate({.base = 1.0, .workers = 0}); }),
               Contains("workers is 0"));
    CHECK_THAT(message_of<InvalidArgument>([] { LearningRate({.base = 1.0, .cap = 0.5}); }), Contains("cap is 0.5"));
    CHECK_THAT(message_of<InvalidArgument>([] { LearningRate({.base = 1.0, .warmup_steps = -1}); }),
               Contains("warmup_steps is -1"));
}

LearningRateOptions with(std::string_view scaling, int workers) {
    LearningRateOptions options{.base = 0.001, .workers = workers, .warmup_steps = 0};
    apply_scaling(options, scaling);
    return options;
}

TEST_CASE("one setting makes 0.0015 of 0.001 from four workers on, and nothing below", "[training]") {
    for (const int workers : {1, 2, 3}) {
        CHECK(LearningRate(with("capped:1.5@4", workers)).at(0) == 0.001);
    }
    for (const int workers : {4, 5, 8, 1000}) {
        CHECK(LearningRate(with("capped:1.5@4", workers)).at(0) == Approx(0.0015).epsilon(1e-15));
    }
    CHECK(LearningRate(with("capped:1.5@4", 4)).summary() ==
          "learning rate: 0.001 becomes 0.0015 with 4 workers (policy capped: the factor is 1.5, the smaller of 4 "
          "workers and the cap 1.5)");
    CHECK(LearningRate(with("capped:1.5@4", 3)).summary() ==
          "learning rate: 0.001 stays 0.001 with 3 workers (policy capped: it scales the rate from 4 workers on)");
}

TEST_CASE("the other settings scale as their policies", "[training]") {
    CHECK(LearningRate(with("none", 8)).scaled() == 0.001);
    CHECK(LearningRate(with("adasum", 8)).scaled() == 0.001);
    CHECK(LearningRate(with("linear", 8)).scaled() == Approx(0.008));
    CHECK(LearningRate(with("linear@9", 8)).scaled() == 0.001);
    CHECK(LearningRate(with("sqrt@4", 4)).scaled() == Approx(0.002));
    CHECK(LearningRate(with("capped:3", 2)).scaled() == Approx(0.002));
    CHECK_THAT(LearningRate(with("adasum", 8)).summary(), Contains("stays 0.001 with 8 workers (policy adasum"));
    CHECK_THAT(LearningRate(with("sqrt", 4)).summary(), Contains("the factor is 2, the square root"));
    CHECK_THAT(LearningRate(with("linear", 1)).summary(), Contains("stays 0.001 with 1 worker (policy linear"));
}

TEST_CASE("a setting that is no scaling is refused and changes nothing", "[training]") {
    LearningRateOptions options{.base = 0.001, .policy = ScalingPolicy::sqrt, .scale_from = 3};
    const auto refusal = [&](std::string_view text) {
        return message_of<InvalidArgument>([&] { apply_scaling(options, text); });
    };
    CHECK_THAT(refusal("capped:0.5"), Contains("'capped:0.5'") && Contains("cap is '0.5'") && Contains("from 1 on"));
    CHECK_THAT(refusal("capped:x"), Contains("cap is 'x'"));
    CHECK_THAT(refusal("linear:2"), Contains("only the policy capped has a cap"));
    CHECK_THAT(refusal("linear@0"), Contains("number of workers is '0'"));
    CHECK_THAT(refusal("linear@4x"), Contains("number of workers is '4x'") && Contains("capped:1.5@4"));
    CHECK_THAT(refusal(""), Contains("policy '' is unknown"));
    CHECK(options.policy == ScalingPolicy::sqrt);
    CHECK(options.scale_from == 3);
}

TEST_CASE("a step decay multiplies the rate at its milestones", "[training]") {
    const LearningRate rate({.base = 1.0, .schedule = StepDecay{.milestones = {10, 20}, .factor = 0.5}});
    CHECK(rate.at(9) == 1.0);
    CHECK(rate.at(10) == 0.5);
    CHECK(rate.at(19) == 0.5);
    CHECK(rate.at(20) == 0.25);
    CHECK_THAT(rate.summary(), Contains("multiplied by 0.5 at 2 milestones"));
}

TEST_CASE("a cosine decay goes from the end of the warm-up to the floor", "[training]") {
    const LearningRate rate({.base = 1.0,
                             .policy = ScalingPolicy::linear,
                             .workers = 2,
                             .warmup_steps = 10,
                             .schedule = CosineDecay{.last_step = 110, .floor = 0.1}});
    CHECK(rate.at(0) == 1.0);
    CHECK(rate.at(5) == 1.5);
    CHECK(rate.at(10) == 2.0);
    CHECK(rate.at(60) == Approx(2.0 * 0.55));
    CHECK(rate.at(35) == Approx(2.0 * (0.1 + 0.9 * 0.5 * (1.0 + std::sqrt(0.5)))));
    CHECK(rate.at(110) == Approx(0.2));
    CHECK(rate.at(5000) == Approx(0.2));
    CHECK_THAT(rate.summary(), Contains("warm-up over 10 steps; cosine decay to 0.2 until step 110"));
}

TEST_CASE("schedules out of range are named", "[training]") {
    const auto refusal = [](const Schedule& schedule) {
        return message_of<InvalidArgument>(
            [&] { LearningRate({.base = 1.0, .warmup_steps = 5, .schedule = schedule}); });
    };
    CHECK_THAT(refusal(StepDecay{.milestones = {5, 3}}), Contains("milestone 3 after 5"));
    CHECK_THAT(refusal(StepDecay{.milestones = {5}, .factor = 0.0}), Contains("factor of the step decay is 0"));
    CHECK_THAT(refusal(CosineDecay{.last_step = 5}), Contains("cosine decay is 5") && Contains("warm-up steps, 5"));
    CHECK_THAT(refusal(CosineDecay{.last_step = 9, .floor = 2.0}), Contains("floor of the cosine decay is 2"));
    CHECK_THAT(message_of<InvalidArgument>([] { LearningRate({.base = 1.0, .scale_from = 0}); }),
               Contains("scale_from is 0"));
}

TEST_CASE("the momentum correction is the ratio of the rates", "[training]") {
    CHECK(momentum_correction(0.1, 0.4) == Approx(4.0));
    CHECK_THAT(message_of<InvalidArgument>([] { (void)momentum_correction(0.0, 0.4); }), Contains("from the rate 0"));
}

TEST_CASE("a plateau lowers the rate after its patience", "[training]") {
    Plateau plateau({.factor = 0.5, .patience = 2, .threshold = 0.1, .cooldown = 1, .least = 0.2});
    CHECK_FALSE(plateau.observe(1.0));
    CHECK_FALSE(plateau.observe(0.95));          // the first step without an improvement of a tenth
    CHECK_FALSE(plateau.observe(std::nan("")));  // the second step without an improvement
    CHECK_FALSE(plateau.observe(0.8));           // an improvement
    CHECK_FALSE(plateau.observe(0.8));
    CHECK_FALSE(plateau.observe(0.9));
    CHECK(plateau.observe(0.9));
    CHECK(plateau.factor() == 0.5);
    Plateau restored({.factor = 0.5, .patience = 2, .threshold = 0.1, .cooldown = 1, .least = 0.2});
    std::memcpy(restored.state().tensor.data(), plateau.state().tensor.data(), 4 * sizeof(double));
    for (Plateau* const each : {&plateau, &restored}) {
        CHECK_FALSE(each->observe(0.9));  // the cooldown
        CHECK_FALSE(each->observe(0.9));
        CHECK_FALSE(each->observe(0.9));
        CHECK(each->observe(0.9));
        CHECK(each->factor() == 0.25);
    }
    for (int i = 0; i < 4; ++i) {
        plateau.observe(0.9);
    }
    CHECK(plateau.factor() == 0.2);
    Plateau accuracy({.patience = 0, .larger_is_better = true});
    CHECK_FALSE(accuracy.observe(0.5));
    CHECK_FALSE(accuracy.observe(0.6));
    CHECK(accuracy.observe(0.6));
    CHECK_THAT(message_of<InvalidArgument>([] { Plateau({.factor = 1.0}); }), Contains("plateau: factor is 1"));
    CHECK_THAT(message_of<InvalidArgument>([] { Plateau({.least = 2.0}); }), Contains("least is 2"));
    CHECK_THAT(message_of<InvalidArgument>([] { Plateau({.patience = -1}); }), Contains("patience is -1"));
    CHECK_THAT(message_of<InvalidArgument>([] { Plateau({.threshold = 1.0}); }),
               Contains("threshold is 1; it must be below 1"));
    Plateau doubled({.patience = 0, .threshold = 1.0, .larger_is_better = true});
    CHECK_FALSE(doubled.observe(0.25));
    CHECK_FALSE(doubled.observe(0.75));
}

}  // namespace
}  // namespace rueda::training
