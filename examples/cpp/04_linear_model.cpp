// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdio>
#include <rueda/rueda.hpp>
#include <rueda/training/parameters.hpp>
#include <rueda/training/sampler.hpp>
#include <vector>

// Fits y = 3x + 2 by gradient descent. Each rank computes the gradient for its share of every batch.
int main() {
    rueda::init();
    // All ranks must begin with the same model, so they take rank 0's parameters.
    std::vector<double> model = {0.1 * rueda::rank(), 0.0};  // slope, offset
    rueda::training::broadcast_parameters(std::vector<rueda::training::NamedTensor>{{"model", model}});

    rueda::training::Sampler sampler({.samples = 64, .batch = 16, .rank = rueda::rank(), .size = rueda::size()});
    for (int epoch = 0; epoch < 100; ++epoch) {
        sampler.start_epoch(epoch);  // a new order of the samples, the same on all ranks
        for (std::int64_t batch = 0; batch < sampler.batches(); ++batch) {
            std::vector<double> gradient = {0.0, 0.0};
            for (const std::int64_t sample : sampler.share(batch)) {
                const double x = static_cast<double>(sample) / 32.0;
                const double error = model[0] * x + model[1] - (3.0 * x + 2.0);
                gradient[0] += 2.0 * error * x;
                gradient[1] += 2.0 * error;
            }
            // The sum is divided by the size of the whole batch, which is right even if the ranks' shares differ in
            // size.
            rueda::allreduce(
                "gradient", gradient,
                {.op = rueda::ReduceOp::sum, .postscale = 1.0 / static_cast<double>(sampler.batch_size(batch))});
            model[0] -= 0.1 * gradient[0];
            model[1] -= 0.1 * gradient[1];
        }
    }
    std::printf("rank %d: slope %.3f, offset %.3f\n", rueda::rank(), model[0], model[1]);
    rueda::shutdown();
}
