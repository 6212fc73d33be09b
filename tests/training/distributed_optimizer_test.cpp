// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the optimizer in a job of one process. distributed_optimizer_job.cpp tests it with several ranks.
#include "rueda/training/distributed_optimizer.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "tests/training/job.hpp"
#include "tests/training/messages.hpp"

namespace rueda::training {
namespace {
using Catch::Matchers::Contains;
using test::Job;
using test::message_of;

/// Two parameters whose gradients the test writes.
struct Pair {
    std::vector<float> a = {1.0F, 2.0F};
    std::vector<float> b = {3.0F};
    std::vector<float> a_gradient = {0.0F, 0.0F};
    std::vector<float> b_gradient = {0.0F};
    [[nodiscard]] std::vector<Parameter> parameters() { return {{"a", a, a_gradient}, {"b", b, b_gradient}}; }
};

TEST_CASE("a step reduces and updates every parameter", "[training]") {
    const Job job;
    Pair model;
    DistributedOptimizer optimizer(Sgd{}, model.parameters());
    optimizer.broadcast();
    for (int step = 0; step < 3; ++step) {
        model.b_gradient = {4.0F};
        optimizer.gradient_ready(1);
        model.a_gradient = {1.0F, -1.0F};
        optimizer.gradient_ready(0);
        optimizer.step(0.5, 0.5);
    }
    CHECK(model.a == std::vector<float>{0.25F, 2.75F});
    CHECK(model.b == std::vector<float>{0.0F});
    CHECK(optimizer.optimizer().steps() == 3);
}

TEST_CASE("accumulated gradients are divided by the number of passes", "[training]") {
    const Job job;
    Pair model;
    DistributedOptimizer optimizer(Sgd{}, model.parameters(), {.passes_per_step = 4});
    for (int pass = 0; pass < 4; ++pass) {
        model.a_gradient[0] += 2.0F;
        model.b_gradient[0] += static_cast<float>(pass);
        optimizer.gradient_ready(0);
        optimizer.gradient_ready(1);
    }
    optimizer.synchronize();
    CHECK(model.a_gradient[0] == 2.0F);
    CHECK(model.b_gradient[0] == 1.5F);
    optimizer.step(1.0);
    CHECK(model.a[0] == -1.0F);
    CHECK(model.b[0] == 1.5F);
}

TEST_CASE("a step clips by the norm of all gradients", "[training]") {
    const Job job;
    Pair model;
    DistributedOptimizer optimizer(Sgd{}, model.parameters(), {.max_norm = 2.5});
    model.a_gradient = {6.0F, 0.0F};
    model.b_gradient = {-8.0F};
    optimizer.gradient_ready(0);
    optimizer.gradient_ready(1);
    optimizer.step(1.0, 0.5);  // the factor 0.5 reduces the norm from 10 to 5
    CHECK(model.a[0] == Approx(1.0 - 1.5));
    CHECK(model.b[0] == Approx(3.0 + 2.0));
}

TEST_CASE("a skipped step changes nothing", "[training]") {
    const Job job;
    Pair model;
    DistributedOptimizer optimizer(Adam{}, model.parameters());
    model.a_gradient[0] = std::numeric_limits<float>::infinity();
    optimizer.gradient_ready(0);
    optimizer.gradient_ready(1);
    optimizer.skip();
    CHECK(model.a == std::vector<float>{1.0F, 2.0F});
    CHECK(optimizer.optimizer().steps() == 0);
    optimizer.gradient_ready(0);
    CHECK_THAT(message_of<InvalidArgument>([&] { optimizer.skip(); }), Contains("'b' was ready 0 times"));
}

TEST_CASE("gradients that are missing or ready too often are named", "[training]") {
    const Job job;
    Pair model;
    DistributedOptimizer optimizer(Sgd{}, model.parameters());
    optimizer.gradient_ready(1);
    CHECK_THAT(message_of<InvalidArgument>([&] { optimizer.step(0.1); }),
               Contains("parameter 'a' was ready 0 times") && Contains("expected 1"));
    CHECK_THAT(message_of<InvalidArgument>([&] { optimizer.gradient_ready(1); }),
               Contains("parameter 'b' is ready more than 1 times") && Contains("call step() first"));
    CHECK_THAT(message_of<InvalidArgument>([&] { optimizer.gradient_ready(2); }), Contains("number 2 does not exist"));
    optimizer.gradient_ready(0);
    optimizer.step(0.1);
    CHECK(optimizer.optimizer().steps() == 1);
}

TEST_CASE("the destructor waits for the reductions that still run", "[training]") {
    const Job job;
    std::vector<float> values(1 << 22);
    std::vector<float> gradient(values.size(), 1.0F);
    {
        DistributedOptimizer optimizer(Sgd{}, {{"w", values, gradient}, {"b", values, gradient}},
                                       {.passes_per_step = 2});
        optimizer.gradient_ready(0);
        optimizer.gradient_ready(0);
        CHECK_THAT(message_of<InvalidArgument>([&] { optimizer.step(0.1); }), Contains("'b' was ready 0 times"));
    }
    CHECK(gradient.back() == 0.5F);
}

TEST_CASE("a failed reduction ends the step with its error", "[training]") {
    Pair model;
    DistributedOptimizer optimizer(Sgd{}, model.parameters());
    CHECK_THAT(message_of<NotInitialized>([&] { optimizer.gradient_ready(0); }), !Contains("no error"));
}

TEST_CASE("wrong options of the distributed optimizer are named", "[training]") {
    Pair model;
    const auto refusal = [&](const DistributedOptimizerOptions& options) {
        return message_of<InvalidArgument>([&] { DistributedOptimizer(Sgd{}, model.parameters(), options); });
    };
    CHECK_THAT(refusal({.op = ReduceOp::max}), Contains("op is max"));
    CHECK_THAT(refusal({.passes_per_step = 0}), Contains("passes_per_step is 0"));
    CHECK_THAT(refusal({.max_norm = 0.0}), Contains("max_norm is 0"));
}

}  // namespace
}  // namespace rueda::training
