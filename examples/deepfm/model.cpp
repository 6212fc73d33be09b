// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "model.hpp"

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "rueda/rueda.hpp"

namespace deepfm {
namespace {

/// Adagrad adds this number to the root by which it divides. rueda::training::Adagrad and PyTorch use the same value.
constexpr float kEpsilon = 1e-10F;
constexpr float kInitialEmbedding = 0.03F;  ///< bound of the initial values

template <class Dense>
std::span<float> span_of(Dense& dense) {
    return {dense.data(), static_cast<std::size_t>(dense.size())};
}

}  // namespace

void RowSums::clear() {
    for (const std::int64_t id : gradients_.ids) {
        places_[static_cast<std::size_t>(id)] = -1;
    }
    gradients_.ids.clear();
    gradients_.rows.clear();
}

float* RowSums::row(std::int64_t id) {
    std::int32_t& place = places_[static_cast<std::size_t>(id)];
    if (place < 0) {
        place = static_cast<std::int32_t>(gradients_.ids.size());
        gradients_.ids.push_back(id);
        gradients_.rows.resize(gradients_.rows.size() + static_cast<std::size_t>(width_));
    }
    return gradients_.rows.data() + place * width_;
}

void RowSums::add(const RowGradients& gradients) {
    const float* from = gradients.rows.data();
    for (const std::int64_t id : gradients.ids) {
        float* const sum = row(id);
        for (std::int64_t k = 0; k < width_; ++k) {
            sum[k] += *from++;
        }
    }
}

Table::Table(std::int64_t features, std::int64_t embedding, rueda::training::Random& random)
    : features_(features),
      width_(1 + embedding),
      values_(static_cast<std::size_t>(features * width_)),
      accumulators_(values_.size(), kInitialAccumulator) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
        const bool linear = i % static_cast<std::size_t>(width_) == 0;
        values_[i] = linear ? 0.0F : uniform(random, kInitialEmbedding);
    }
}

void Table::update(std::span<const std::int64_t> ids, std::span<const float> gradients, float rate, float factor) {
    using Row = Eigen::Array<float, 1, Eigen::Dynamic>;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const std::int64_t first = ids[i] * width_;
        const auto gradient =
            factor * Eigen::Map<const Row>(gradients.data() + static_cast<std::int64_t>(i) * width_, width_);
        Eigen::Map<Row> accumulator(accumulators_.data() + first, width_);
        accumulator += gradient.square();
        Eigen::Map<Row>(values_.data() + first, width_) -= rate * gradient / (accumulator.sqrt() + kEpsilon);
    }
}

rueda::training::NamedTensor Table::values() {
    return {"table", {values_.data(), rueda::DType::float32, {features_, width_}}};
}
rueda::training::NamedTensor Table::accumulators() {
    return {"optimizer.adagrad.sum.table", {accumulators_.data(), rueda::DType::float32, {features_, width_}}};
}

DeepFm::DeepFm(std::int64_t features, std::int64_t embedding, std::span<const std::int64_t> hidden, std::uint64_t seed,
               DenseLibrary library)
    : DeepFm(
          [&] {
              rueda::training::Random random(seed);
              auto parameters = std::make_shared<Parameters>(
                  Parameters{Table(features, embedding, random), {}, make_dense_math(library)});
              std::int64_t inputs = kFields * embedding;
              for (const std::int64_t outputs : hidden) {
                  parameters->layers.emplace_back(inputs, outputs, random);
                  inputs = outputs;
              }
              parameters->layers.emplace_back(inputs, 1, random);
              return parameters;
          }(),
          embedding) {}

DeepFm::DeepFm(std::shared_ptr<Parameters> parameters, std::int64_t embedding)
    : parameters_(std::move(parameters)),
      embedding_(embedding),
      row_sums_(parameters_->table.features(), parameters_->table.width()) {
    for (const Layer& layer : parameters_->layers) {
        results_.emplace_back(layer);
    }
}

std::vector<rueda::training::Parameter> DeepFm::dense_parameters() {
    std::vector<rueda::training::Parameter> parameters;
    for (std::size_t i = 0; i < results_.size(); ++i) {
        Layer& layer = parameters_->layers[i];
        const LayerResults& results = results_[i];
        const std::string name = "layer" + std::to_string(i + 1);
        parameters.push_back({name + ".weights", span_of(layer.weights), span_of(*results.weights_gradient)});
        parameters.push_back({name + ".bias", span_of(layer.bias), span_of(*results.bias_gradient), false});
    }
    return parameters;
}

std::span<const float> DeepFm::forward(const Samples& samples) {
    const Table& table = parameters_->table;
    const std::int64_t rows = samples.rows();
    inputs_.resize(rows, kFields * embedding_);
    sums_.resize(rows, embedding_);
    logits_.resize(static_cast<std::size_t>(rows));
    const std::int64_t* id = samples.ids.data();
    const float* value = samples.values.data();
    for (std::int64_t i = 0; i < rows; ++i) {
        float* input = inputs_.row(i).data();
        float* const sum = sums_.row(i).data();
        std::fill_n(sum, embedding_, 0.0F);
        float linear = 0.0F;
        float squares = 0.0F;
        for (std::int64_t field = 0; field < kFields; ++field, ++id, ++value, input += embedding_) {
            const float* const row = table.row(*id);
            linear += *value * row[0];
            for (std::int64_t k = 0; k < embedding_; ++k) {
                input[k] = *value * row[1 + k];
                sum[k] += input[k];
                squares += input[k] * input[k];
            }
        }
        // The sum of the products of all pairs of fields, by Rendle 2010 ("Factorization Machines", lemma 3.1).
        logits_[static_cast<std::size_t>(i)] = linear + 0.5F * (sums_.row(i).squaredNorm() - squares);
    }
    const Matrix* last = &inputs_;
    for (std::size_t i = 0; i < results_.size(); ++i) {
        Matrix& output = results_[i].output;
        parameters_->math->forward(*last, parameters_->layers[i], output);
        if (i + 1 < results_.size()) {
            output = output.cwiseMax(0.0F);
        }
        last = &output;
    }
    Eigen::Map<Eigen::VectorXf>(logits_.data(), rows) += last->col(0);
    return logits_;
}

void DeepFm::backward(const Samples& samples, std::span<const float> slopes,
                      const std::function<void(std::size_t)>& ready) {
    Matrix slope = Eigen::Map<const Matrix>(slopes.data(), samples.rows(), 1);
    for (std::size_t i = results_.size(); i-- > 0;) {
        const Matrix& input = i == 0 ? inputs_ : results_[i - 1].output;
        parameters_->math->backward_weights(input, slope, results_[i]);
        ready(2 * i);
        *results_[i].bias_gradient = slope.colwise().sum();
        ready(2 * i + 1);
        Matrix before(input.rows(), input.cols());
        parameters_->math->backward_input(slope, parameters_->layers[i], before);
        if (i > 0) {
            before = (input.array() > 0.0F).select(before, 0.0F);
        }
        slope.swap(before);
    }
    input_slopes_.swap(slope);
    backward_embeddings(samples, slopes);
}

void DeepFm::backward_embeddings(const Samples& samples, std::span<const float> slopes) {
    row_sums_.clear();
    const std::int64_t* id = samples.ids.data();
    const float* value = samples.values.data();
    for (std::int64_t i = 0; i < samples.rows(); ++i) {
        const float slope = slopes[static_cast<std::size_t>(i)];
        const float* input = inputs_.row(i).data();
        const float* input_slope = input_slopes_.row(i).data();
        const float* const sum = sums_.row(i).data();
        for (std::int64_t field = 0; field < kFields; ++field, ++id, ++value) {
            float* const gradient = row_sums_.row(*id);
            gradient[0] += slope * *value;
            for (std::int64_t k = 0; k < embedding_; ++k) {
                // The first summand is the gradient of the products with all other fields. input_slope comes from the
                // dense part.
                gradient[1 + k] += *value * (slope * (sum[k] - input[k]) + input_slope[k]);
            }
            input += embedding_;
            input_slope += embedding_;
        }
    }
}

}  // namespace deepfm
