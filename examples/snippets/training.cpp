// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <rueda/rueda.hpp>
#include <rueda/training/checkpoint.hpp>
#include <rueda/training/learning_rate.hpp>
#include <rueda/training/parameters.hpp>
#include <rueda/training/sampler.hpp>
#include <string>
#include <vector>

// Fits y = 3x by gradient descent, saves a checkpoint, and reads it back.
int main(int argc, char** argv) {
    rueda::init();
    std::vector<double> slope = {rueda::rank() == 0 ? 0.5 : 0.0};
    const std::vector<rueda::training::NamedTensor> model = {{"slope", slope}};
    rueda::training::broadcast_parameters(model);

    const rueda::training::LearningRate rate({.base = 0.05,
                                              .policy = rueda::training::ScalingPolicy::capped,
                                              .workers = rueda::size(),
                                              .cap = 1.5,
                                              .warmup_steps = 10});
    rueda::training::Sampler sampler({.samples = 64, .batch = 16, .rank = rueda::rank(), .size = rueda::size()});
    std::int64_t step = 0;
    for (int epoch = 0; epoch < 40; ++epoch) {
        sampler.start_epoch(epoch);
        for (std::int64_t batch = 0; batch < sampler.batches(); ++batch) {
            std::vector<double> gradient = {0.0};
            for (const std::int64_t sample : sampler.share(batch)) {
                const double x = static_cast<double>(sample) / 32.0;
                gradient[0] += 2.0 * x * (slope[0] * x - 3.0 * x);
            }
            const auto samples = static_cast<double>(sampler.batch_size(batch));
            rueda::allreduce("gradient", gradient, {.op = rueda::ReduceOp::sum, .postscale = 1.0 / samples});
            slope[0] -= rate.at(step++) * gradient[0];
        }
    }

    const std::filesystem::path path = argc > 1 ? argv[1] : "slope.safetensors";
    rueda::training::save_checkpoint(path, model, {{"step", std::to_string(step)}});
    const double trained = slope[0];
    slope[0] = 0.0;
    const rueda::training::Metadata metadata = rueda::training::restore_checkpoint(path, model);

    const bool right = std::abs(trained - 3.0) < 1e-3 && slope[0] == trained && metadata.at("step") == "160";
    std::printf("rank %d: slope %.4f\n", rueda::rank(), slope[0]);
    rueda::shutdown();
    return right ? 0 : 1;
}
