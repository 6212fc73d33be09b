// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/mixed_precision.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "ops/compression.hpp"
#include "rueda/error.hpp"
#include "rueda/training/gradients.hpp"

namespace rueda::training {
namespace {

void check_loss_scale(const LossScaleOptions& options) {
    const auto require = [](bool right, std::string_view option, auto value, std::string_view expected) {
        if (!right) {
            throw InvalidArgument(fmt::format("loss scale: {} is {}; it must be {}", option, value, expected));
        }
    };
    require(std::isfinite(options.least) && options.least > 0.0, "least", options.least, "finite and above 0");
    require(std::isfinite(options.initial) && options.initial >= options.least, "initial", options.initial,
            fmt::format("finite and at least {}, the value of least", options.least));
    require(std::isfinite(options.growth) && options.growth >= 1.0, "growth", options.growth, "finite and at least 1");
    require(options.backoff > 0.0 && options.backoff < 1.0, "backoff", options.backoff, "above 0 and below 1");
    require(options.growth_interval >= 1, "growth_interval", options.growth_interval, "at least 1");
}

ops::Compressed half_format(DType dtype) {
    return {DType::float32, dtype == DType::float16 ? Compression::fp16 : Compression::bf16};
}

void widen(DType dtype, std::span<const std::uint16_t> halves, std::span<float> floats) {
    ops::expand(half_format(dtype), std::as_bytes(halves).data(), std::as_writable_bytes(floats).data(), 1.0,
                halves.size());
}

}  // namespace

LossScale::LossScale(const LossScaleOptions& options) : options_(options) {
    check_loss_scale(options);
    state_[kScale] = options.initial;
}

bool LossScale::keep_step(bool gradients_are_finite, ProcessSet set) {
    if (!true_on_all_ranks(gradients_are_finite, set)) {
        state_[kScale] = std::max(state_[kScale] * options_.backoff, options_.least);
        state_[kFinite] = 0.0;
        state_[kSkipped] += 1.0;
        return false;
    }
    state_[kFinite] += 1.0;
    if (state_[kFinite] >= static_cast<double>(options_.growth_interval)) {
        const double grown = state_[kScale] * options_.growth;
        state_[kScale] = std::isfinite(grown) ? grown : state_[kScale];
        state_[kFinite] = 0.0;
    }
    return true;
}

NamedTensor LossScale::state() { return {"loss_scale", TensorView(state_)}; }

struct MasterWeights::State {
    DType dtype;
    std::vector<HalfParameter> model;
    std::vector<std::vector<float>> values;
    std::vector<std::vector<float>> gradients;
    std::vector<Parameter> parameters;
};

MasterWeights::MasterWeights(DType dtype, std::vector<HalfParameter> model) : state_(std::make_unique<State>()) {
    if (dtype != DType::float16 && dtype != DType::bfloat16) {
        throw InvalidArgument(
            fmt::format("master weights: the dtype of the model is {}; use float16 or bfloat16", name_of(dtype)));
    }
    state_->dtype = dtype;
    state_->model = std::move(model);
    for (const HalfParameter& each : state_->model) {
        if (each.values.size() != each.gradient.size()) {
            throw InvalidArgument(
                fmt::format("master weights: parameter '{}' has {} values and {} gradients; the numbers must be equal",
                            each.name, each.values.size(), each.gradient.size()));
        }
        std::vector<float>& values = state_->values.emplace_back(each.values.size());
        std::vector<float>& gradient = state_->gradients.emplace_back(each.values.size());
        widen(dtype, each.values, values);
        // When the outer vectors `state_->values` and `state_->gradients` grow, the inner vectors keep their memory. So
        // these spans stay valid.
        state_->parameters.push_back({each.name, values, gradient, each.decays});
    }
}
MasterWeights::MasterWeights(MasterWeights&& other) noexcept = default;
MasterWeights& MasterWeights::operator=(MasterWeights&& other) noexcept = default;
MasterWeights::~MasterWeights() = default;

std::span<const Parameter> MasterWeights::parameters() const noexcept { return state_->parameters; }

std::vector<NamedTensor> MasterWeights::gradients() const {
    std::vector<NamedTensor> all;
    for (const HalfParameter& each : state_->model) {
        const Shape shape{static_cast<std::int64_t>(each.gradient.size())};
        all.push_back({each.name, TensorView(each.gradient.data(), state_->dtype, shape)});
    }
    return all;
}

bool MasterWeights::take_gradients() {
    for (std::size_t i = 0; i < state_->model.size(); ++i) {
        widen(state_->dtype, state_->model[i].gradient, state_->gradients[i]);
    }
    return std::isfinite(gradient_norm(state_->parameters));
}

void MasterWeights::publish() {
    for (std::size_t i = 0; i < state_->model.size(); ++i) {
        const std::span<std::uint16_t> halves = state_->model[i].values;
        ops::compress(half_format(state_->dtype), std::as_bytes(std::span(state_->values[i])).data(),
                      std::as_writable_bytes(halves).data(), halves.size());
    }
}

std::vector<NamedTensor> MasterWeights::state() const {
    std::vector<NamedTensor> all;
    for (std::size_t i = 0; i < state_->model.size(); ++i) {
        all.push_back({"master." + state_->model[i].name, TensorView(state_->values[i])});
    }
    return all;
}

}  // namespace rueda::training
