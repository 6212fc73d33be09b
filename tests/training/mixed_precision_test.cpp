// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The agreement of several ranks is tested by examples/snippets/mixed_precision.cpp.
#include "rueda/training/mixed_precision.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "rueda/training/gradients.hpp"
#include "tests/training/job.hpp"
#include "tests/training/messages.hpp"

namespace rueda::training {
namespace {
using Catch::Matchers::Contains;
using test::message_of;

using Halves = std::vector<std::uint16_t>;

TEST_CASE("the norm covers all gradients, and clipping limits it", "[training]") {
    std::vector<float> a = {3.0F, 0.0F};
    std::vector<float> b = {-4.0F};
    const std::vector<Parameter> parameters = {{"a", a, a}, {"b", b, b}};
    CHECK(gradient_norm(parameters) == 5.0);
    CHECK(clip_factor(5.0, 10.0) == 1.0);
    CHECK(clip_factor(5.0, 5.0) == 1.0);
    CHECK(clip_factor(5.0, 1.0) == 0.2);
    CHECK(clip_factor(0.0, 1.0) == 1.0);
    b[0] = std::numeric_limits<float>::infinity();
    CHECK_FALSE(std::isfinite(gradient_norm(parameters)));
    zero_gradients(parameters);
    CHECK(a == std::vector<float>{0.0F, 0.0F});
    CHECK(gradient_norm(parameters) == 0.0);
    CHECK_THAT(message_of<InvalidArgument>([] { (void)clip_factor(std::nan(""), 1.0); }),
               Contains("norm is nan") && Contains("Skip a step"));
    CHECK_THAT(message_of<InvalidArgument>([] { (void)clip_factor(1.0, 0.0); }), Contains("largest norm is 0"));
}

TEST_CASE("clipped gradients have the largest norm", "[training]") {
    std::vector<float> values = {0.0F, 0.0F};
    std::vector<float> gradient = {30.0F, 40.0F};
    Optimizer optimizer(Sgd{}, {{"w", values, gradient}});
    optimizer.step(1.0, clip_factor(gradient_norm(optimizer.parameters()), 5.0));
    CHECK(values[0] == Approx(-3.0F));
    CHECK(values[1] == Approx(-4.0F));
}

TEST_CASE("norms of shards are combined over the ranks", "[training]") {
    const test::Job job;
    std::vector<float> a = {3.0F, 4.0F};
    const std::vector<Parameter> parameters = {{"a", a, a}};
    CHECK(sharded_gradient_norm(parameters) == 5.0);
    CHECK(true_on_all_ranks(true));
    CHECK_FALSE(true_on_all_ranks(false));
}

TEST_CASE("a loss scale shrinks after steps that are not finite and grows after finite ones", "[training]") {
    const test::Job job;
    LossScale scale({.initial = 8.0, .growth_interval = 3, .least = 2.0});
    CHECK(scale.gradient_factor() == 0.125);
    CHECK(scale.keep_step(true));
    CHECK(scale.keep_step(true));
    CHECK_FALSE(scale.keep_step(false));
    CHECK(scale.scale() == 4.0);
    CHECK(scale.keep_step(true));
    CHECK(scale.keep_step(true));
    CHECK(scale.scale() == 4.0);
    LossScale restored({.growth_interval = 3});
    std::memcpy(restored.state().tensor.data(), scale.state().tensor.data(), 3 * sizeof(double));
    CHECK(restored.keep_step(true));
    CHECK(restored.scale() == 8.0);
    CHECK(restored.skipped() == 1);
    for (int i = 0; i < 3; ++i) {
        CHECK_FALSE(scale.keep_step(false));
    }
    CHECK(scale.scale() == 2.0);
    CHECK(scale.skipped() == 4);
    LossScale huge({.initial = std::numeric_limits<double>::max(), .growth_interval = 1});
    CHECK(huge.keep_step(true));
    CHECK(std::isfinite(huge.scale()));
}

TEST_CASE("wrong options of a loss scale are named", "[training]") {
    const auto refusal = [](const LossScaleOptions& options) {
        return message_of<InvalidArgument>([&] { LossScale{options}; });
    };
    CHECK(refusal({.initial = 0.5}) ==
          "loss scale: initial is 0.5; it must be finite and at least 1, the value of least");
    CHECK_THAT(refusal({.growth = 0.5}), Contains("growth is 0.5"));
    CHECK_THAT(refusal({.backoff = 1.0}), Contains("backoff is 1"));
    CHECK_THAT(refusal({.growth_interval = 0}), Contains("growth_interval is 0"));
    CHECK_THAT(refusal({.least = 0.0}), Contains("least is 0"));
}

TEST_CASE("master weights keep updates that are too small for 16 bits", "[training]") {
    // Each case has the number 1 and a gradient of 2^-10, in one of the two formats. Just below 1, neighbouring numbers
    // differ by 2^-11 in float16, and by 2^-8 in bfloat16.
    struct Case {
        DType dtype;
        std::uint16_t one;
        std::uint16_t gradient;
        std::uint16_t below_one;
        int steps;
    };
    for (const Case& each :
         {Case{DType::float16, 0x3C00, 0x1400, 0x3BFF, 8}, Case{DType::bfloat16, 0x3F80, 0x3A80, 0x3F7F, 64}}) {
        Halves values(1, each.one);
        Halves gradient(1, each.gradient);
        MasterWeights master(each.dtype, {{"w", values, gradient}});
        CHECK(master.parameters()[0].values[0] == 1.0F);
        Optimizer optimizer(Sgd{}, {master.parameters().begin(), master.parameters().end()});
        // Each step subtracts 2^-14. This is an eighth of the distance to the next number in float16, and a 64th in
        // bfloat16.
        for (int step = 0; step < each.steps; ++step) {
            CHECK(master.take_gradients());
            CHECK(master.parameters()[0].gradient[0] == 0x1p-10F);
            optimizer.step(0x1p-4);
            master.publish();
            const bool still_one = values[0] == each.one;
            CHECK(still_one == (2 * (step + 1) <= each.steps));
        }
        CHECK(values[0] == each.below_one);
        CHECK(master.parameters()[0].values[0] == 1.0F - static_cast<float>(each.steps) * 0x1p-14F);
        CHECK(master.gradients()[0].tensor.dtype() == each.dtype);
        CHECK(master.gradients()[0].tensor.data() == gradient.data());
        CHECK(master.state()[0].name == "master.w");
    }
}

TEST_CASE("gradients that are not finite are noticed", "[training]") {
    Halves values(40, 0x3C00);
    Halves gradient(40, 0x3C00);
    MasterWeights master(DType::float16, {{"w", values, gradient}});
    CHECK(master.take_gradients());
    for (const std::uint16_t bits : Halves{0x7C00, 0xFC00, 0x7E00}) {
        gradient[33] = bits;
        CHECK_FALSE(master.take_gradients());
    }
    CHECK_THAT(message_of<InvalidArgument>([&] { MasterWeights(DType::float32, {}); }),
               Contains("is float32; use float16 or bfloat16"));
    Halves short_gradient(2);
    CHECK_THAT(message_of<InvalidArgument>([&] {
                   MasterWeights(DType::float16, {{"w", values, short_gradient}});
               }),
               Contains("'w' has 40 values and 2 gradients"));
}

}  // namespace
}  // namespace rueda::training
