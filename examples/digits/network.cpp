// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "network.hpp"

#include <algorithm>

namespace digits {
Network::Network(std::uint64_t seed) : Network(rueda::training::Random(seed)) {}

Network::Network(rueda::training::Random random)
    : convolution1_("convolution1", {1, kChannels1, kSide, 1}, random),
      convolution2_("convolution2", {kChannels1, kChannels2, kSide, 2}, random),
      dense1_("dense1", kChannels2 * kHalfSide * kHalfSide, kHidden, random),
      dense2_("dense2", kHidden, kClasses, random),
      parameters_{&dense2_.weights,       &dense2_.biases,       &dense1_.weights,       &dense1_.biases,
                  &convolution2_.weights, &convolution2_.biases, &convolution1_.weights, &convolution1_.biases} {}

const std::vector<float>& Network::forward(const Images& images) {
    const std::int64_t n = images.count();
    if (n == 0) {
        return no_logits_;
    }
    rectifier1_.forward(convolution1_.forward(images.pixels, n));
    rectifier2_.forward(convolution2_.forward(rectifier1_.out(), n));
    rectifier3_.forward(dense1_.forward(rectifier2_.out(), n));
    return dense2_.forward(rectifier3_.out(), n);
}

void Network::backward(const Images& images, const std::vector<float>& logits_slope,
                       const std::function<void(Parameter&)>& ready) {
    if (images.count() == 0) {  // a rank without samples contributes zeros to the sums
        for (Parameter* parameter : parameters_) {
            const std::span<float> gradient = parameter->gradient.numbers();
            std::fill(gradient.begin(), gradient.end(), 0.0F);
            ready(*parameter);
        }
        return;
    }
    const auto both_ready = [&](auto& layer) {
        ready(layer.weights);
        ready(layer.biases);
    };
    dense2_.backward_parameters(rectifier3_.out(), logits_slope);
    both_ready(dense2_);
    std::vector<float>& slope3 = dense2_.backward_input(logits_slope);
    rectifier3_.backward(slope3);

    dense1_.backward_parameters(rectifier2_.out(), slope3);
    both_ready(dense1_);
    std::vector<float>& slope2 = dense1_.backward_input(slope3);
    rectifier2_.backward(slope2);

    convolution2_.backward_parameters(rectifier1_.out(), slope2);
    both_ready(convolution2_);
    std::vector<float>& slope1 = convolution2_.backward_input(slope2);
    rectifier1_.backward(slope1);

    convolution1_.backward_parameters(images.pixels, slope1);
    both_ready(convolution1_);
}

std::vector<rueda::training::NamedTensor> Network::state() {
    std::vector<rueda::training::NamedTensor> tensors;
    for (Parameter* parameter : parameters_) {
        tensors.push_back(parameter->named_value());
        tensors.push_back(parameter->named_velocity());
    }
    return tensors;
}

}  // namespace digits
