// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file The dense layers, computed with Eigen or with oneDNN. Both libraries use the same parameters in the same
/// memory, so a run with one library can continue from a checkpoint of the other.
#pragma once

#include <Eigen/Core>
#include <memory>

#include "rueda/eigen.hpp"
#include "rueda/training/random.hpp"

namespace deepfm {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// The parameters of a dense layer.
struct Layer {
    Layer(Eigen::Index inputs, Eigen::Index outputs, rueda::training::Random& random);

    Matrix weights;
    Eigen::RowVectorXf bias;
};

/// What one replica of the model computes for a dense layer. The gradients are in resident memory, where the ranks of a
/// host reduce the gradients of replica 0 in place. The gradients of the other replicas are in resident memory only
/// because all replicas have the same type.
struct LayerResults {
    explicit LayerResults(const Layer& layer)
        : weights_gradient(layer.weights.rows(), layer.weights.cols()), bias_gradient(1, layer.bias.cols()) {}

    rueda::ResidentMatrix<Matrix> weights_gradient;
    rueda::ResidentMatrix<Eigen::RowVectorXf> bias_gradient;
    Matrix output;
};

enum class DenseLibrary { eigen, onednn };

/// Computes dense layers with a library (DenseLibrary). Threads: the functions compute in the calling thread, and
/// several threads may call them at the same time.
class DenseMath {
public:
    DenseMath() = default;
    DenseMath(const DenseMath&) = delete;
    DenseMath& operator=(const DenseMath&) = delete;
    virtual ~DenseMath() = default;

    /// Computes output = input × weights + bias.
    virtual void forward(const Matrix& input, const Layer& layer, Matrix& output) const = 0;
    /// Computes the gradient of the weights: inputᵀ × slope, where `slope` is the slope of the layer's output.
    virtual void backward_weights(const Matrix& input, const Matrix& slope, LayerResults& results) const = 0;
    /// Computes the slope of the layer's input: slope × weightsᵀ.
    virtual void backward_input(const Matrix& slope, const Layer& layer, Matrix& input_slope) const = 0;
};

/// Throws rueda::InvalidArgument if the program was built without `library`.
[[nodiscard]] std::shared_ptr<const DenseMath> make_dense_math(DenseLibrary library);

/// Returns a random number from −bound to bound.
[[nodiscard]] float uniform(rueda::training::Random& random, float bound);

}  // namespace deepfm
