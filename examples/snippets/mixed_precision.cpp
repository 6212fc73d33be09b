// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <rueda/rueda.hpp>
#include <rueda/training/gradients.hpp>
#include <rueda/training/mixed_precision.hpp>
#include <rueda/training/optimizer.hpp>
#include <vector>

// One weight in bfloat16, which has the upper 16 bits of a float32. A model would compute with it.
int main() {
    namespace training = rueda::training;
    rueda::init();
    constexpr std::uint16_t kOne = 0x3F80;
    constexpr std::uint16_t kInfinity = 0x7F80;
    std::vector<std::uint16_t> weight = {kOne};
    std::vector<std::uint16_t> gradient(1);
    training::MasterWeights master(rueda::DType::bfloat16, {{"weight", weight, gradient}});
    training::Optimizer optimizer(training::Sgd{}, {master.parameters().begin(), master.parameters().end()});
    training::LossScale scale({.initial = 2.0, .backoff = 0.5});

    for (int step = 0; step < 4; ++step) {
        // The gradient of the scaled loss. In step 1, the last rank's gradient is too large.
        const bool overflows = step == 1 && rueda::rank() == rueda::size() - 1;
        gradient[0] = overflows ? kInfinity : kOne;
        for (const training::NamedTensor& each : master.gradients()) {
            rueda::allreduce(each.name, each.tensor);  // two bytes per element travel
        }
        const bool finite = master.take_gradients();
        const double factor = scale.gradient_factor();
        if (scale.keep_step(finite)) {  // all ranks agree
            const double norm = factor * training::gradient_norm(master.parameters());
            optimizer.step(0.125, factor * training::clip_factor(norm, 0.5));
            master.publish();
        }
    }
    // Step 0 has the gradient 1/2, because the scale is 2. Step 1 is skipped and makes the scale 1. The gradients of
    // steps 2 and 3 are 1, and are clipped to 1/2.
    const float expected = 1.0F - 3 * 0.125F * 0.5F;
    const bool right = master.parameters()[0].values[0] == expected && weight[0] == 0x3F50 && scale.skipped() == 1;
    std::printf("rank %d: weight %.4f, %d step skipped\n", rueda::rank(), master.parameters()[0].values[0],
                static_cast<int>(scale.skipped()));
    rueda::shutdown();
    return right ? 0 : 1;
}
