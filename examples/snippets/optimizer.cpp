// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cmath>
#include <cstdio>
#include <rueda/rueda.hpp>
#include <rueda/training/checkpoint.hpp>
#include <rueda/training/optimizer.hpp>
#include <vector>

// Fits y = 3x + 1 with AdamW. The checkpoint contains the model and the optimizer's state.
int main(int argc, char** argv) {
    namespace training = rueda::training;
    rueda::init();
    std::vector<float> slope = {0.0F};
    std::vector<float> offset = {0.0F};
    std::vector<float> slope_gradient(1);
    std::vector<float> offset_gradient(1);
    // Weight decay acts on the slope only.
    training::Optimizer optimizer(
        training::AdamW{.weight_decay = 1e-4},
        {{"slope", slope, slope_gradient}, {"offset", offset, offset_gradient, /*decays=*/false}});

    for (int step = 0; step < 600; ++step) {
        const float x = static_cast<float>(step % 5 + rueda::rank()) / 5.0F;  // every rank has its own sample
        const float error = slope[0] * x + offset[0] - (3.0F * x + 1.0F);
        slope_gradient[0] = 2.0F * error * x;
        offset_gradient[0] = 2.0F * error;
        rueda::allreduce("slope", slope_gradient);
        rueda::allreduce("offset", offset_gradient);
        optimizer.step(step < 400 ? 0.1 : 0.01);
    }

    std::vector<training::NamedTensor> all = optimizer.state();
    all.push_back({"slope", slope});
    all.push_back({"offset", offset});
    const char* const path = argc > 1 ? argv[1] : "line.safetensors";
    training::save_checkpoint(path, all);
    const float trained = slope[0];
    slope[0] = 0.0F;
    training::restore_checkpoint(path, all);

    const bool right = std::abs(trained - 3.0F) < 0.02F && std::abs(offset[0] - 1.0F) < 0.02F && slope[0] == trained;
    std::printf("rank %d: slope %.3f, offset %.3f after %d steps\n", rueda::rank(), slope[0], offset[0],
                static_cast<int>(optimizer.steps()));
    rueda::shutdown();
    return right ? 0 : 1;
}
