// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// The layers of the network: convolutions with oneDNN, and dense layers with Eigen. The layers do not communicate.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parameter.hpp"

namespace digits {

/// Makes oneDNN compute only in the calling thread. Two runs then give the same bits, and other processes can use the
/// other cores. Must be called before the first layer is created.
void use_one_thread();

/// A 3×3 convolution with padding 1 over square images, which are in memory channel by channel and row by row. The
/// backward pass has two halves: one computes the gradients of the parameters, the other computes the slope for the
/// layer below.
class Convolution {
public:
    struct Form {
        std::int64_t in_channels;
        std::int64_t out_channels;
        std::int64_t in_side;
        std::int64_t stride;
    };
    Convolution(const std::string& name, const Form& form, rueda::training::Random& random);
    Convolution(Convolution&&) noexcept;
    ~Convolution();

    const std::vector<float>& forward(const std::vector<float>& in, std::int64_t images);
    void backward_parameters(const std::vector<float>& in, const std::vector<float>& out_slope);
    std::vector<float>& backward_input(const std::vector<float>& out_slope);

    Parameter weights;
    Parameter biases;

private:
    struct Plan;  ///< oneDNN's primitives for a certain number of images
    Plan& plan(std::int64_t images);

    Form form_;
    std::int64_t images_ = 0;
    std::map<std::int64_t, std::unique_ptr<Plan>> plans_;
    std::vector<float> out_;
    std::vector<float> in_slope_;
};

/// Computes in × weights + biases. The backward pass has two halves, so that the parameters' gradients can be reduced
/// while the slope for the layer below is computed.
class Dense {
public:
    Dense(const std::string& name, std::int64_t inputs, std::int64_t outputs, rueda::training::Random& random);

    const std::vector<float>& forward(const std::vector<float>& in, std::int64_t images);
    /// Computes the gradients of weights and biases. `in` must be the input of the last forward().
    void backward_parameters(const std::vector<float>& in, const std::vector<float>& out_slope);
    /// Returns the slope of the loss with respect to the input of the last forward().
    std::vector<float>& backward_input(const std::vector<float>& out_slope);

    Parameter weights;
    Parameter biases;

private:
    std::int64_t inputs_;
    std::int64_t outputs_;
    std::int64_t images_ = 0;
    std::vector<float> out_;
    std::vector<float> in_slope_;
};

/// Computes max(0, ·) of each value.
class Rectifier {
public:
    void forward(const std::vector<float>& in);
    /// Keeps `slope` where the input of forward() was above 0, and sets it to 0 elsewhere.
    void backward(std::vector<float>& slope) const;
    /// Returns the result of the last forward().
    [[nodiscard]] const std::vector<float>& out() const noexcept { return out_; }

private:
    std::vector<float> out_;
};

/// The loss: softmax and cross-entropy.
struct Loss {
    double sum = 0.0;          ///< sum over the images
    std::vector<float> slope;  ///< slope of sum × `scale` with respect to the logits; see softmax_loss() for `scale`
};
Loss softmax_loss(const std::vector<float>& logits, std::span<const std::int32_t> labels, double scale);

/// Returns the number of images whose label has the largest logit.
std::int64_t count_correct(const std::vector<float>& logits, std::span<const std::int32_t> labels);

}  // namespace digits
