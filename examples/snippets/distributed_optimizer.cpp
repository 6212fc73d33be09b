// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cmath>
#include <cstdio>
#include <rueda/rueda.hpp>
#include <rueda/training/distributed_optimizer.hpp>
#include <rueda/training/gradients.hpp>
#include <vector>

namespace {

// A linear model of three inputs. In a larger model, each parameter is a layer.
struct Model {
    std::vector<float> weights = {0.0F, 0.0F, 0.0F};
    std::vector<float> offset = {0.0F};
    // The ranks of a host reduce this memory in place.
    std::vector<float, rueda::Allocator<float>> weights_gradient = std::vector<float, rueda::Allocator<float>>(3);
    std::vector<float, rueda::Allocator<float>> offset_gradient = std::vector<float, rueda::Allocator<float>>(1);
};

}  // namespace

// Fits y = x₀ − 2 x₁ + 3 x₂ + 0.5. Each step accumulates the gradients of two samples per rank.
int main() {
    namespace training = rueda::training;
    rueda::init();
    {
        Model model;
        model.offset[0] = static_cast<float>(rueda::rank());  // broadcast() makes the models equal
        training::DistributedOptimizer optimizer(
            training::Sgd{.momentum = 0.9},
            {{"weights", model.weights, model.weights_gradient}, {"offset", model.offset, model.offset_gradient}},
            {.passes_per_step = 2, .max_norm = 5.0});
        optimizer.broadcast();
        for (int step = 0; step < 300; ++step) {
            training::zero_gradients(optimizer.parameters());
            for (int pass = 0; pass < 2; ++pass) {
                const int sample = (2 * step + pass) * rueda::size() + rueda::rank();
                const float x[] = {static_cast<float>(sample % 2), static_cast<float>(sample % 3) - 1.0F,
                                   static_cast<float>(sample % 5) / 2.0F - 1.0F};
                const std::vector<float>& w = model.weights;
                const float error = w[0] * x[0] + w[1] * x[1] + w[2] * x[2] + model.offset[0] -
                                    (x[0] - 2.0F * x[1] + 3.0F * x[2] + 0.5F);
                model.offset_gradient[0] += 2.0F * error;
                optimizer.gradient_ready(1);  // in the last pass, the ranks then reduce this gradient
                for (std::size_t i = 0; i < 3; ++i) {
                    model.weights_gradient[i] += 2.0F * error * x[i];
                }
                optimizer.gradient_ready(0);
            }
            optimizer.step(0.02);
        }
        const std::vector<float>& w = model.weights;
        const bool right = std::abs(w[0] - 1.0F) < 0.01F && std::abs(w[1] + 2.0F) < 0.01F &&
                           std::abs(w[2] - 3.0F) < 0.01F && std::abs(model.offset[0] - 0.5F) < 0.01F;
        std::printf("rank %d: %.3f %.3f %.3f, offset %.3f\n", rueda::rank(), w[0], w[1], w[2], model.offset[0]);
        // All ranks have the same bits.
        std::vector<float> smallest = w;
        std::vector<float> largest = w;
        rueda::allreduce("smallest", smallest, {.op = rueda::ReduceOp::min});
        rueda::allreduce("largest", largest, {.op = rueda::ReduceOp::max});
        if (!right || smallest != largest) {
            return 1;
        }
    }
    rueda::shutdown();
    return 0;
}
