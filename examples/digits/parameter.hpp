// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <vector>

#include "rueda/rueda.hpp"
#include "rueda/training/parameters.hpp"
#include "rueda/training/random.hpp"
#include "summed.hpp"

namespace digits {

/// A tensor that is trained by stochastic gradient descent with momentum.
struct Parameter {
    /// Creates a parameter whose values are evenly distributed between −bound and bound.
    Parameter(const std::string& parameter_name, const rueda::Shape& parameter_shape, float bound,
              rueda::training::Random& random)
        : name(parameter_name),
          shape(parameter_shape),
          value(static_cast<std::size_t>(shape.elements())),
          velocity(value.size()),
          gradient("gradient." + name, shape) {
        for (float& each : value) {
            each = bound * static_cast<float>(2.0 * random.uniform() - 1.0);
        }
    }

    void update(float rate, float momentum) {
        const std::span<const float> slope = gradient.numbers();
        for (std::size_t i = 0; i < value.size(); ++i) {
            velocity[i] = momentum * velocity[i] + slope[i];
            value[i] -= rate * velocity[i];
        }
    }

    [[nodiscard]] rueda::training::NamedTensor named_value() {
        return {name, {value.data(), rueda::DType::float32, shape}};
    }
    [[nodiscard]] rueda::training::NamedTensor named_velocity() {
        return {"velocity." + name, {velocity.data(), rueda::DType::float32, shape}};
    }

    std::string name;
    rueda::Shape shape;
    std::vector<float> value;
    std::vector<float> velocity;
    Summed<float> gradient;
};

}  // namespace digits
