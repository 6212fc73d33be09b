// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/learning_rate.hpp"

#include <catch2/catch.hpp>
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
}

TEST_CASE("policies have names that read back", "[training]") {
    for (const auto policy : {ScalingPolicy::none, ScalingPolicy::linear, ScalingPolicy::sqrt, ScalingPolicy::capped}) {
        CHECK(parse_scaling_policy(name_of(policy)) == policy);
    }
    CHECK_THAT(message_of<InvalidArgument>([] { (void)parse_scaling_policy("Linear"); }),
               Contains("'Linear'") && Contains("none, linear, sqrt, capped"));
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

}  // namespace
}  // namespace rueda::training
