// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data.hpp"
#include "layers.hpp"
#include "rueda/training/parameters.hpp"

namespace digits {

/// 8×8 images → 3×3 convolution, 16 channels → 3×3 convolution, 32 channels, every other pixel → dense 64 → dense 10.
/// About 38,000 parameters.
class Network {
public:
    /// Parameters that follow from the seed alone.
    explicit Network(std::uint64_t seed);
    Network(const Network&) = delete;  // parameters_ points into it
    Network& operator=(const Network&) = delete;

    /// Computes the logits of the images, kClasses for each.
    const std::vector<float>& forward(const Images& images);
    /// Computes the gradients of the loss whose slope with respect to the logits is given, for the images of the last
    /// forward. Works from the last layer to the first, and calls `ready` for each parameter as soon as its gradient is
    /// complete.
    void backward(const Images& images, const std::vector<float>& logits_slope,
                  const std::function<void(Parameter&)>& ready);

    /// In the order in which backward completes their gradients.
    [[nodiscard]] const std::vector<Parameter*>& parameters() const noexcept { return parameters_; }
    /// The values and the velocities: everything that training changes.
    [[nodiscard]] std::vector<rueda::training::NamedTensor> state();

private:
    explicit Network(rueda::training::Random random);

    Convolution convolution1_;
    Convolution convolution2_;
    Dense dense1_;
    Dense dense2_;
    Rectifier rectifier1_;
    Rectifier rectifier2_;
    Rectifier rectifier3_;
    std::vector<Parameter*> parameters_;
    std::vector<float> no_logits_;
};

}  // namespace digits
