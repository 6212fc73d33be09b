// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "layers.hpp"

#include <dlfcn.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <oneapi/dnnl/dnnl.hpp>

namespace digits {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Row = Eigen::RowVectorXf;

auto matrix(const float* data, std::int64_t rows, std::int64_t columns) {
    return Eigen::Map<const Matrix>(data, rows, columns);
}
auto matrix(float* data, std::int64_t rows, std::int64_t columns) { return Eigen::Map<Matrix>(data, rows, columns); }

/// Returns the greatest absolute value of an initial weight, by He et al. 2015 (arXiv:1502.01852). With these weights,
/// layers with max(0, ·) keep the variance of their inputs.
float bound_for(std::int64_t inputs) { return std::sqrt(6.0F / static_cast<float>(inputs)); }

std::size_t elements(std::int64_t images, std::int64_t each) { return static_cast<std::size_t>(images * each); }

}  // namespace

void use_one_thread() {
    // Debian's oneDNN computes with OpenMP, but another oneDNN may be built without it. So this function is looked up
    // by name, and the program need not be linked with OpenMP.
    using SetThreads = void (*)(int);
    if (const auto set_threads = reinterpret_cast<SetThreads>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) {
        set_threads(1);
    }
}

// ---- Convolution

struct Convolution::Plan {
    Plan(const Form& form, std::int64_t images) : stream(engine()) {
        using dnnl::memory;
        const auto floats = memory::data_type::f32;
        const std::int64_t out_side = (form.in_side - 1) / form.stride + 1;
        in = {{images, form.in_channels, form.in_side, form.in_side}, floats, memory::format_tag::nchw};
        out = {{images, form.out_channels, out_side, out_side}, floats, memory::format_tag::nchw};
        weights = {{form.out_channels, form.in_channels, 3, 3}, floats, memory::format_tag::oihw};
        biases = {{form.out_channels}, floats, memory::format_tag::x};

        const auto direct = dnnl::algorithm::convolution_direct;
        const memory::dims strides = {form.stride, form.stride};
        const memory::dims padding = {1, 1};
        const dnnl::convolution_forward::primitive_desc forward_facts(
            {dnnl::prop_kind::forward_training, direct, in, weights, biases, out, strides, padding, padding}, engine());
        forward = dnnl::convolution_forward(forward_facts);
        backward_weights = dnnl::convolution_backward_weights(
            {{direct, in, weights, biases, out, strides, padding, padding}, engine(), forward_facts});
        backward_data = dnnl::convolution_backward_data(
            {{direct, in, weights, out, strides, padding, padding}, engine(), forward_facts});
    }

    static dnnl::engine& engine() {
        static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
        return cpu;
    }
    /// oneDNN takes a pointer to non-const memory for inputs, too.
    static dnnl::memory memory(const dnnl::memory::desc& form, const float* data) {
        return {form, engine(), const_cast<float*>(data)};
    }

    dnnl::stream stream;
    dnnl::memory::desc in, out, weights, biases;
    dnnl::convolution_forward forward;
    dnnl::convolution_backward_weights backward_weights;
    dnnl::convolution_backward_data backward_data;
};

Convolution::Convolution(const std::string& name, const Form& form, rueda::training::Random& random)
    : weights(name + ".weights", {form.out_channels, form.in_channels, 3, 3}, bound_for(form.in_channels * 9), random),
      biases(name + ".biases", {form.out_channels}, 0.0F, random),
      form_(form) {}
Convolution::Convolution(Convolution&&) noexcept = default;
Convolution::~Convolution() = default;

Convolution::Plan& Convolution::plan(std::int64_t images) {
    std::unique_ptr<Plan>& found = plans_[images];
    if (!found) {
        found = std::make_unique<Plan>(form_, images);
    }
    return *found;
}

const std::vector<float>& Convolution::forward(const std::vector<float>& in, std::int64_t images) {
    images_ = images;
    Plan& p = plan(images);
    out_.resize(p.out.get_size() / sizeof(float));
    p.forward.execute(p.stream, {{DNNL_ARG_SRC, Plan::memory(p.in, in.data())},
                                 {DNNL_ARG_WEIGHTS, Plan::memory(p.weights, weights.value.data())},
                                 {DNNL_ARG_BIAS, Plan::memory(p.biases, biases.value.data())},
                                 {DNNL_ARG_DST, Plan::memory(p.out, out_.data())}});
    p.stream.wait();
    return out_;
}

void Convolution::backward_parameters(const std::vector<float>& in, const std::vector<float>& out_slope) {
    Plan& p = plan(images_);
    p.backward_weights.execute(p.stream,
                               {{DNNL_ARG_SRC, Plan::memory(p.in, in.data())},
                                {DNNL_ARG_DIFF_DST, Plan::memory(p.out, out_slope.data())},
                                {DNNL_ARG_DIFF_WEIGHTS, Plan::memory(p.weights, weights.gradient.numbers().data())},
                                {DNNL_ARG_DIFF_BIAS, Plan::memory(p.biases, biases.gradient.numbers().data())}});
    p.stream.wait();
}

std::vector<float>& Convolution::backward_input(const std::vector<float>& out_slope) {
    Plan& p = plan(images_);
    in_slope_.resize(p.in.get_size() / sizeof(float));
    p.backward_data.execute(p.stream, {{DNNL_ARG_DIFF_DST, Plan::memory(p.out, out_slope.data())},
                                       {DNNL_ARG_WEIGHTS, Plan::memory(p.weights, weights.value.data())},
                                       {DNNL_ARG_DIFF_SRC, Plan::memory(p.in, in_slope_.data())}});
    p.stream.wait();
    return in_slope_;
}

// ---- Dense

Dense::Dense(const std::string& name, std::int64_t inputs, std::int64_t outputs, rueda::training::Random& random)
    : weights(name + ".weights", {inputs, outputs}, bound_for(inputs), random),
      biases(name + ".biases", {outputs}, 0.0F, random),
      inputs_(inputs),
      outputs_(outputs) {}

const std::vector<float>& Dense::forward(const std::vector<float>& in, std::int64_t images) {
    images_ = images;
    out_.resize(elements(images, outputs_));
    auto out = matrix(out_.data(), images, outputs_);
    out.noalias() = matrix(in.data(), images, inputs_) * matrix(weights.value.data(), inputs_, outputs_);
    out.rowwise() += Eigen::Map<const Row>(biases.value.data(), outputs_);
    return out_;
}

void Dense::backward_parameters(const std::vector<float>& in, const std::vector<float>& out_slope) {
    const auto slope = matrix(out_slope.data(), images_, outputs_);
    matrix(weights.gradient.numbers().data(), inputs_, outputs_).noalias() =
        matrix(in.data(), images_, inputs_).transpose() * slope;
    Eigen::Map<Row>(biases.gradient.numbers().data(), outputs_) = slope.colwise().sum();
}

std::vector<float>& Dense::backward_input(const std::vector<float>& out_slope) {
    in_slope_.resize(elements(images_, inputs_));
    matrix(in_slope_.data(), images_, inputs_).noalias() =
        matrix(out_slope.data(), images_, outputs_) * matrix(weights.value.data(), inputs_, outputs_).transpose();
    return in_slope_;
}

// ---- Rectifier and loss

void Rectifier::forward(const std::vector<float>& in) {
    out_.resize(in.size());
    std::transform(in.begin(), in.end(), out_.begin(), [](float value) { return std::max(value, 0.0F); });
}

void Rectifier::backward(std::vector<float>& slope) const {
    std::transform(slope.begin(), slope.end(), out_.begin(), slope.begin(),
                   [](float each, float out) { return out > 0.0F ? each : 0.0F; });
}

Loss softmax_loss(const std::vector<float>& logits, std::span<const std::int32_t> labels, double scale) {
    Loss loss;
    const auto images = static_cast<std::int64_t>(labels.size());
    const auto classes = images == 0 ? 0 : static_cast<std::int64_t>(logits.size()) / images;
    loss.slope.resize(logits.size());
    for (std::int64_t i = 0; i < images; ++i) {
        const Eigen::ArrayXd values =
            Eigen::Map<const Eigen::ArrayXf>(logits.data() + i * classes, classes).cast<double>();
        // Without subtracting the maximum, exp() could overflow.
        const Eigen::ArrayXd powers = (values - values.maxCoeff()).exp();
        const std::int32_t label = labels[static_cast<std::size_t>(i)];
        loss.sum += std::log(powers.sum()) - (values(label) - values.maxCoeff());
        Eigen::ArrayXd slope = powers / powers.sum();
        slope(label) -= 1.0;
        Eigen::Map<Eigen::ArrayXf>(loss.slope.data() + i * classes, classes) = (slope * scale).cast<float>();
    }
    return loss;
}

std::int64_t count_correct(const std::vector<float>& logits, std::span<const std::int32_t> labels) {
    const std::size_t classes = labels.empty() ? 0 : logits.size() / labels.size();
    std::int64_t correct = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
        const float* const first = logits.data() + i * classes;
        correct += std::max_element(first, first + classes) - first == labels[i] ? 1 : 0;
    }
    return correct;
}

}  // namespace digits
