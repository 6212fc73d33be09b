// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <rueda/rueda.hpp>
#include <rueda/training/batch.hpp>
#include <rueda/training/replicas.hpp>
#include <rueda/training/sampler.hpp>
#include <vector>

namespace training = rueda::training;

// Fits y = 3x + 1 with two replicas in each process. The replicas share the parameters, and each has its own gradients.
int main() {
    constexpr std::size_t kReplicas = 2;
    rueda::init();
    bool right = true;
    {
        std::vector<float> slope = {0.0F};
        std::vector<float> offset = {0.0F};
        std::vector<std::vector<float>> slope_gradients(kReplicas, {0.0F});
        std::vector<std::vector<float>> offset_gradients(kReplicas, {0.0F});
        std::vector<std::vector<training::Parameter>> parameters;
        for (std::size_t k = 0; k < kReplicas; ++k) {
            parameters.push_back({{"slope", slope, slope_gradients[k]}, {"offset", offset, offset_gradients[k]}});
        }
        training::Replicas replicas(training::Sgd{.momentum = 0.9}, parameters);
        replicas.broadcast();

        // The batch is a multiple of the replicas of all processes, and each replica gets its share of it.
        const training::Batch batch = training::plan_batch(
            {.size = 30, .workers = replicas.workers(), .indivisible = training::Indivisible::round_up});
        std::vector<training::Sampler> samplers;
        for (int k = 0; k < replicas.count(); ++k) {
            samplers.emplace_back(training::SamplerOptions{.samples = 100,
                                                           .batch = batch.global,
                                                           .rank = rueda::rank() * replicas.count() + k,
                                                           .size = replicas.workers(),
                                                           .remainder = training::Remainder::drop});
        }
        for (int step = 0; step < 300; ++step) {
            replicas.run([&](training::Replica& replica) {  // on the thread of each replica
                const auto k = static_cast<std::size_t>(replica.index());
                const auto share = samplers[k].share(step % samplers[k].batches());
                float slope_gradient = 0.0F;
                float offset_gradient = 0.0F;
                for (const std::int64_t sample : share) {
                    const float x = static_cast<float>(sample) / 100.0F;
                    const float error = slope[0] * x + offset[0] - (3.0F * x + 1.0F);
                    slope_gradient += 2.0F * error * x / static_cast<float>(share.size());
                    offset_gradient += 2.0F * error / static_cast<float>(share.size());
                }
                offset_gradients[k][0] = offset_gradient;
                replica.gradient_ready(1);  // adds up the gradients of the replicas, then of the processes
                slope_gradients[k][0] = slope_gradient;
                replica.gradient_ready(0);
            });
            replicas.step(0.1);
        }
        right = std::abs(slope[0] - 3.0F) < 0.01F && std::abs(offset[0] - 1.0F) < 0.01F;
        std::printf("rank %d, %d workers: slope %.3f, offset %.3f\n", rueda::rank(), replicas.workers(), slope[0],
                    offset[0]);
    }
    rueda::shutdown();
    return right ? 0 : 1;
}
