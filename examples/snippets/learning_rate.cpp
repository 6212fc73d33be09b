// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cmath>
#include <cstdio>
#include <rueda/rueda.hpp>
#include <rueda/training/learning_rate.hpp>

// Prints how the rate is scaled. One text sets policy, cap and the number of workers from which the rate is scaled.
int main() {
    namespace training = rueda::training;
    rueda::init();
    training::LearningRateOptions options{.base = 0.001,
                                          .workers = rueda::size(),
                                          .warmup_steps = 100,
                                          .schedule = training::CosineDecay{.last_step = 1000, .floor = 0.1}};
    training::apply_scaling(options, "capped:1.5@4");
    const training::LearningRate rate(options);
    if (rueda::rank() == 0) {
        // With 4 ranks: "learning rate: 0.001 becomes 0.0015 with 4 workers (policy capped: the factor is 1.5, the
        // smaller of 4 workers and the cap 1.5); warm-up over 100 steps; cosine decay to 0.00015 until step 1000".
        std::printf("%s\n", rate.summary().c_str());
    }

    // Lowers the rate if the loss of the evaluation stops improving.
    training::Plateau plateau({.factor = 0.5, .patience = 1});
    for (const double loss : {1.0, 0.5, 0.5, 0.5}) {
        plateau.observe(loss);
    }

    // The velocity of this trainer sums gradients that are multiplied by the rate. So the velocity is corrected when
    // the rate changes. The weight then takes the same course as with the usual momentum, which multiplies the velocity
    // by the rate.
    double weight = 1.0;
    double velocity = 0.0;
    double usual_weight = 1.0;
    double usual_velocity = 0.0;
    for (int step = 0; step < 200; ++step) {
        velocity *= training::momentum_correction(rate.at(step - 1), rate.at(step));
        velocity = 0.9 * velocity + rate.at(step) * weight;  // the gradient of weight² / 2
        weight -= velocity;
        usual_velocity = 0.9 * usual_velocity + usual_weight;
        usual_weight -= rate.at(step) * usual_velocity;
    }

    const double expected = rueda::size() >= 4 ? 0.0015 : 0.001;
    const bool right = std::abs(rate.at(100) - expected) < 1e-12 && std::abs(rate.at(1000) - 0.1 * expected) < 1e-12 &&
                       plateau.factor() == 0.5 && std::abs(weight - usual_weight) < 1e-12;
    rueda::shutdown();
    return right ? 0 : 1;
}
