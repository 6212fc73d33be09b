// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <algorithm>
#include <cstdio>
#include <rueda/rueda.hpp>
#include <rueda/training/random.hpp>
#include <rueda/training/sampler.hpp>
#include <vector>

#include "examples/digits/network.hpp"

namespace {

/// Returns noisy images of ten random patterns.
digits::Images make_images(std::int64_t count) {
    rueda::training::Random random(1);
    std::vector<float> patterns(digits::kClasses * digits::kPixels);
    for (float& pixel : patterns) {
        pixel = random.uniform() < 0.5 ? 0.0F : 1.0F;
    }
    digits::Images images;
    for (std::int64_t i = 0; i < count; ++i) {
        images.labels.push_back(static_cast<std::int32_t>(i % digits::kClasses));
        for (std::int64_t pixel = 0; pixel < digits::kPixels; ++pixel) {
            const std::int64_t place = i % digits::kClasses * digits::kPixels + pixel;
            images.pixels.push_back(patterns[static_cast<std::size_t>(place)] * 0.7F +
                                    0.3F * static_cast<float>(random.uniform()));
        }
    }
    return images;
}

}  // namespace

// Trains a convolutional network with oneDNN and Eigen. This is the training loop of examples/digits without options,
// files and checkpoints. examples/digits/network.hpp has the network, which does not communicate.
int main() {
    rueda::init();
    digits::use_one_thread();
    const digits::Images images = make_images(640);
    digits::Network network(/*seed=*/0);  // the same seed on all ranks gives the same parameters
    rueda::training::Sampler sampler({.samples = 640, .batch = 64, .rank = rueda::rank(), .size = rueda::size()});
    for (int epoch = 0; epoch < 4; ++epoch) {
        sampler.start_epoch(epoch);
        for (std::int64_t batch = 0; batch < sampler.batches(); ++batch) {
            const digits::Images mine = images.pick(sampler.share(batch));
            const double scale = 1.0 / static_cast<double>(sampler.batch_size(batch));
            const digits::Loss loss = digits::softmax_loss(network.forward(mine), mine.labels, scale);
            // backward() calls this function for each gradient as soon as the gradient is complete. The gradient is
            // reduced while backward() computes the layers below.
            network.backward(mine, loss.slope, [](digits::Parameter& parameter) { parameter.gradient.start(); });
            for (digits::Parameter* parameter : network.parameters()) {
                parameter->gradient.wait();
                parameter->update(/*rate=*/0.03F, /*momentum=*/0.9F);
            }
        }
    }
    const std::int64_t right = digits::count_correct(network.forward(images), images.labels);
    std::printf("rank %d: %s\n", rueda::rank(), right > 600 ? "learned" : "not learned");
    rueda::shutdown();
}
