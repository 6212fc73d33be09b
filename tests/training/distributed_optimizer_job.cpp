// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests rueda::training::DistributedOptimizer with several ranks. One test looks at the metrics in the middle of a
// backward pass: the gradients that are ready must be reduced even if the program does not wait for them. The second
// test trains a linear model, and compares it with a plain computation of one process over the samples of all ranks.
// The third test checks what the ranks agree on if they have different gradients. The exit status is 1 if something is
// wrong.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "rueda/rueda.hpp"
#include "rueda/training/distributed_optimizer.hpp"
#include "rueda/training/gradients.hpp"
#include "rueda/training/mixed_precision.hpp"

namespace {

namespace training = rueda::training;

int failures = 0;

void check(bool is_right, const std::string& what) {
    if (!is_right) {
        std::printf("rank %d: %s\n", rueda::rank(), what.c_str());
        ++failures;
    }
}

/// Returns the number of allreduces of this rank that ended with success.
std::int64_t reduced() {
    const std::string metrics = rueda::metrics();
    const std::string key = "\"allreduce\":";
    const std::size_t place = metrics.find(key, metrics.find("\"rueda_operations_total\""));
    check(place != std::string::npos, "the metrics have no number of allreduces");
    return place == std::string::npos ? 0 : std::stoll(metrics.substr(place + key.size()));
}

/// Waits until `count` allreduces have ended. A thread of Rueda counts them. Returns false if more allreduces have
/// ended, or if the wait took a minute.
bool reach(std::int64_t count) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (reduced() < count && std::chrono::steady_clock::now() < end) {
        std::this_thread::yield();
    }
    return reduced() == count;
}

/// Makes two passes, each from the last layer to the first. In the second pass, the test waits after each layer until
/// the layer's gradient is reduced (reach()). The wait would fail if gradient_ready() did not start the reduction, or
/// if the reduction needed step().
template <class Memory>
void check_overlap() {
    constexpr std::size_t kLayers = 4;
    const std::array<std::size_t, kLayers> sizes = {3, 100000, 1, 5000};
    std::array<std::vector<float>, kLayers> values;
    std::array<Memory, kLayers> gradients;
    std::vector<training::Parameter> parameters;
    for (std::size_t i = 0; i < kLayers; ++i) {
        values[i].resize(sizes[i]);
        gradients[i].resize(sizes[i]);
        parameters.push_back({"layer" + std::to_string(i), values[i], gradients[i]});
    }
    training::DistributedOptimizer optimizer(training::Sgd{}, parameters,
                                             {.op = rueda::ReduceOp::sum, .passes_per_step = 2});
    const std::int64_t before = reduced();
    for (int pass = 0; pass < 2; ++pass) {
        std::int64_t ready = 0;
        for (std::size_t i = kLayers; i-- > 0;) {
            for (float& each : gradients[i]) {
                each += static_cast<float>(2 * (rueda::rank() + 1));
            }
            optimizer.gradient_ready(i);
            ready += pass;
            check(reach(before + ready), "pass " + std::to_string(pass) + ": " + std::to_string(reduced() - before) +
                                             " gradients are reduced, but " + std::to_string(ready) + " are ready");
        }
    }
    optimizer.step(1.0);
    check(reduced() == before + static_cast<std::int64_t>(kLayers), "step() started further reductions");
    // The mean of two equal passes, summed over the ranks: 2 + 4 + … = n (n + 1).
    const auto sum = static_cast<float>(rueda::size() * (rueda::size() + 1));
    for (std::size_t i = 0; i < kLayers; ++i) {
        check(values[i] == std::vector<float>(sizes[i], -sum), "the step has wrong values");
    }
}

constexpr std::size_t kInputs = 8;
constexpr int kSteps = 40;
constexpr double kRate = 0.05;
constexpr double kMomentum = 0.5;
using Sample = std::array<double, kInputs + 1>;

/// Returns a sample. The last element is the value that the model must learn for the inputs, the other elements.
Sample sample_of(std::int64_t number) {
    Sample sample{};
    for (std::size_t i = 0; i < kInputs; ++i) {
        const std::int64_t spread = (number * 7 + static_cast<std::int64_t>(i) * (number % 13 + 1)) % 11;
        sample[i] = static_cast<double>(spread) / 5.0 - 1.0;
        sample[kInputs] += sample[i] * (static_cast<double>(i) - 3.5);
    }
    sample[kInputs] += 4.0;
    return sample;
}

/// Adds the gradient of a sample's squared error to `gradient`: the weights, and then the offset.
template <class Weights, class Gradient>
void add_gradient(const Sample& sample, const Weights& weight, Gradient&& add) {
    double error = weight(kInputs) - sample[kInputs];
    for (std::size_t i = 0; i < kInputs; ++i) {
        error += weight(i) * sample[i];
    }
    for (std::size_t i = 0; i < kInputs; ++i) {
        add(i, 2.0 * error * sample[i]);
    }
    add(kInputs, 2.0 * error);
}

/// Trains on the samples of all ranks, as one process, in float64. Counts the steps that were clipped.
Sample train_alone(int passes, double max_norm, int& clipped) {
    Sample weights{};
    Sample momentum{};
    std::int64_t next = 0;
    const int batch = passes * rueda::size();
    for (int step = 0; step < kSteps; ++step) {
        Sample gradient{};
        for (int i = 0; i < batch; ++i) {
            add_gradient(
                sample_of(next++), [&](std::size_t k) { return weights[k]; },
                [&](std::size_t k, double value) { gradient[k] += value / batch; });
        }
        double squares = 0.0;
        for (const double each : gradient) {
            squares += each * each;
        }
        const double factor = std::min(1.0, max_norm / std::sqrt(squares));
        clipped += factor < 1.0 ? 1 : 0;
        for (std::size_t k = 0; k < weights.size(); ++k) {
            momentum[k] = kMomentum * momentum[k] + factor * gradient[k];
            weights[k] -= kRate * momentum[k];
        }
    }
    return weights;
}

void check_training(int passes, double max_norm) {
    std::vector<float> weights(kInputs);
    std::vector<float> offset(1);
    std::vector<float> weights_gradient(kInputs);
    std::vector<float> offset_gradient(1);
    training::DistributedOptimizer optimizer(
        training::Sgd{.momentum = kMomentum},
        {{"weights", weights, weights_gradient}, {"offset", offset, offset_gradient}},
        {.passes_per_step = passes, .max_norm = max_norm});
    for (int step = 0; step < kSteps; ++step) {
        training::zero_gradients(optimizer.parameters());
        for (int pass = 0; pass < passes; ++pass) {
            const std::int64_t number = (std::int64_t{step} * passes + pass) * rueda::size() + rueda::rank();
            add_gradient(
                sample_of(number), [&](std::size_t k) { return k < kInputs ? weights[k] : offset[0]; },
                [&](std::size_t k, double value) {
                    (k < kInputs ? weights_gradient[k] : offset_gradient[0]) += static_cast<float>(value);
                });
            optimizer.gradient_ready(1);
            optimizer.gradient_ready(0);
        }
        optimizer.step(kRate);
    }
    int clipped = 0;
    const Sample expected = train_alone(passes, max_norm, clipped);
    const std::string what = std::to_string(passes) + " passes, norm " + std::to_string(max_norm) + ": ";
    check(std::isinf(max_norm) ? clipped == 0 : clipped > 0 && clipped < kSteps,
          what + std::to_string(clipped) + " steps are clipped");
    for (std::size_t k = 0; k <= kInputs; ++k) {
        const double trained = k < kInputs ? weights[k] : offset[0];
        check(std::abs(trained - expected[k]) < 1e-4, what + "weight " + std::to_string(k) + " is " +
                                                          std::to_string(trained) + ", and alone " +
                                                          std::to_string(expected[k]));
        check(std::abs(expected[k]) > 0.1, what + "the weights hardly changed");
    }
    std::vector<float> least = weights;
    std::vector<float> most = weights;
    rueda::allreduce("least", least, {.op = rueda::ReduceOp::min});
    rueda::allreduce("most", most, {.op = rueda::ReduceOp::max});
    check(least == most, what + "the ranks have different weights");
}

/// Only one rank has gradients that are not finite. All ranks must skip the step, whichever rank it is.
void check_agreement() {
    training::LossScale scale({.initial = 8.0, .growth_interval = 2});
    for (int odd = 0; odd < rueda::size(); ++odd) {
        const std::string what = "only rank " + std::to_string(odd) + " has false: ";
        const bool mine = rueda::rank() != odd;
        check(!training::true_on_all_ranks(mine), what + "true_on_all_ranks() returns true");
        const double before = scale.scale();
        check(!scale.keep_step(mine), what + "the step is kept");
        check(scale.scale() == before / 2 && scale.skipped() == odd + 1, what + "the loss scale does not know of it");
    }
    check(training::true_on_all_ranks(true), "all ranks have true, and true_on_all_ranks() returns false");
    const double before = scale.scale();
    check(scale.keep_step(true) && scale.keep_step(true), "a step is refused although all gradients are finite");
    check(scale.scale() == before * 2 && scale.skipped() == rueda::size(), "the loss scale does not grow");
}

/// Rank r has r + 1 gradients with the value r + 1.
void check_sharded_norm() {
    const auto count = static_cast<std::size_t>(rueda::rank()) + 1;
    std::vector<float> values(count);
    std::vector<float> gradient(count, static_cast<float>(count));
    const std::vector<training::Parameter> parameters = {{"w" + std::to_string(count), values, gradient}};
    // The sum of r³ for r = 1 … n is (n (n + 1) / 2)², so the norm is n (n + 1) / 2.
    const double norm = training::sharded_gradient_norm(parameters);
    check(norm == rueda::size() * (rueda::size() + 1) / 2, "the norm over all ranks is " + std::to_string(norm));
}

}  // namespace

int main() {
    rueda::init();
    check_overlap<std::vector<float>>();
    check_overlap<std::vector<float, rueda::Allocator<float>>>();
    for (const int passes : {1, 3}) {
        check_training(passes, INFINITY);
        check_training(passes, 4.0);
    }
    check_agreement();
    check_sharded_norm();
    rueda::shutdown();
    return failures == 0 ? 0 : 1;
}
