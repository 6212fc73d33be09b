// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file DeepFM (Guo et al. 2017, "DeepFM: A Factorization-Machine based Neural Network for CTR Prediction"). The model
/// computes on one thread and does not communicate.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dense.hpp"
#include "features.hpp"
#include "rueda/training/optimizer.hpp"
#include "rueda/training/parameters.hpp"
#include "rueda/training/random.hpp"

namespace deepfm {

/// The initial value of Adagrad's sum of squares. Adagrad divides by the root of this sum. If the initial value were 0,
/// the first step of a parameter would have the length of the learning rate, however small the gradient is. The weights
/// of a rare id would then depend too much on the few samples that have this id. Also, if a gradient is 0 except for
/// rounding errors, the step would depend on the number of ranks.
inline constexpr float kInitialAccumulator = 1e-3F;

/// The gradients of those rows of the table that the samples use. Each row occurs once, with the sum of its gradients.
struct RowGradients {
    std::vector<std::int64_t> ids;
    std::vector<float> rows;  ///< ids.size() × width
};

/// Collects the gradients of rows of the table.
class RowSums {
public:
    RowSums(std::int64_t features, std::int64_t width)
        : width_(width), places_(static_cast<std::size_t>(features), -1) {}

    void clear();
    /// Returns the memory to which the caller adds the gradient of the id's row. The pointer is valid until the next
    /// call.
    [[nodiscard]] float* row(std::int64_t id);
    /// Adds the gradients that another object has collected for other samples.
    void add(const RowGradients& gradients);
    [[nodiscard]] const RowGradients& gradients() const noexcept { return gradients_; }

private:
    std::int64_t width_;
    std::vector<std::int32_t> places_;  ///< the row of each id in gradients_; −1 if the id has no gradient
    RowGradients gradients_;
};

/// The embeddings of all ids, and an Adagrad optimizer that updates only the rows that have a gradient. Row i has id
/// i's weight in the linear part, followed by id i's embedding.
class Table {
public:
    Table(std::int64_t features, std::int64_t embedding, rueda::training::Random& random);

    [[nodiscard]] std::int64_t features() const noexcept { return features_; }
    [[nodiscard]] std::int64_t width() const noexcept { return width_; }
    [[nodiscard]] const float* row(std::int64_t id) const { return values_.data() + id * width_; }

    /// Makes a step of Adagrad for the rows of the table whose numbers are in `ids`, each at most once. The gradients
    /// are first multiplied by `factor`.
    void update(std::span<const std::int64_t> ids, std::span<const float> gradients, float rate, float factor);

    [[nodiscard]] rueda::training::NamedTensor values();
    [[nodiscard]] rueda::training::NamedTensor accumulators();

private:
    std::int64_t features_;
    std::int64_t width_;
    std::vector<float> values_;
    std::vector<float> accumulators_;
};

class DeepFm {
public:
    /// Makes a model whose dense part has hidden layers of these sizes. Models with the same arguments are equal.
    /// `library` computes the dense part; the initial parameters do not depend on it. Throws InvalidArgument if the
    /// program was built without `library`.
    DeepFm(std::int64_t features, std::int64_t embedding, std::span<const std::int64_t> hidden, std::uint64_t seed,
           DenseLibrary library = DenseLibrary::eigen);
    /// Returns a model that shares the parameters of this model, and has gradients of its own. The two models may
    /// compute at the same time.
    [[nodiscard]] DeepFm make_replica() const { return DeepFm(parameters_, embedding_); }

    /// Returns the logits of the samples. The result is valid until the next call.
    std::span<const float> forward(const Samples& samples);
    /// Computes the gradients for the samples of the last forward(). `slopes` has the slope of the loss with respect to
    /// each logit. Calls `ready` with the index of each dense parameter whose gradient is complete, from the last layer
    /// to the first. The gradients of the table are complete at the end.
    void backward(const Samples& samples, std::span<const float> slopes, const std::function<void(std::size_t)>& ready);

    [[nodiscard]] Table& table() noexcept { return parameters_->table; }
    [[nodiscard]] const RowGradients& row_gradients() const noexcept { return row_sums_.gradients(); }
    /// The dense parameters: weights and bias of each layer.
    [[nodiscard]] std::vector<rueda::training::Parameter> dense_parameters();

private:
    /// What all replicas of the model share.
    struct Parameters {
        Table table;
        std::vector<Layer> layers;
        std::shared_ptr<const DenseMath> math;
    };

    DeepFm(std::shared_ptr<Parameters> parameters, std::int64_t embedding);
    void backward_embeddings(const Samples& samples, std::span<const float> slopes);

    std::shared_ptr<Parameters> parameters_;
    std::int64_t embedding_;
    RowSums row_sums_;
    std::vector<LayerResults> results_;  ///< for each layer
    Matrix inputs_;                      ///< the inputs of the dense part: the embeddings × values of all fields
    Matrix input_slopes_;
    Matrix sums_;  ///< the sum of the embeddings × values over the fields
    std::vector<float> logits_;
};

}  // namespace deepfm
