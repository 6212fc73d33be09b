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

inline constexpr std::int64_t kChannels1 = 16;
inline constexpr std::int64_t kChannels2 = 32;
inline constexpr std::int64_t kHidden = 64;
inline constexpr std::int64_t kHalfSide = kSide / 2;  ///< after the second convolution

/// The network: 8×8 images → 3×3 convolution, 16 channels → 3×3 convolution, 32 channels, stride 2 → dense 64 → dense
/// 10. It has about 38,000 parameters.
class Network {
public:
    /// Creates a network whose initial parameters depend only on the seed.
    explicit Network(std::uint64_t seed);
    Network(const Network&) = delete;  // parameters_ points into the object
    Network& operator=(const Network&) = delete;

    /// Returns the logits of the images: kClasses values for each image.
    const std::vector<float>& forward(const Images& images);
    /// Computes the gradients for the images of the last forward(). `logits_slope` is the slope of the loss with
    /// respect to the logits. Works from the last layer to the first, and calls `ready` for each parameter as soon as
    /// its gradient is complete.
    void backward(const Images& images, const std::vector<float>& logits_slope,
                  const std::function<void(Parameter&)>& ready);

    /// Returns the parameters in the order in which backward() completes their gradients.
    [[nodiscard]] const std::vector<Parameter*>& parameters() const noexcept { return parameters_; }
    /// Returns everything that training changes: the parameters' values and velocities.
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
