// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/gradients.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "rueda/error.hpp"
#include "training/optimizers/kernels.hpp"

namespace rueda::training {
namespace {

double squares_of(std::span<const Parameter> parameters) {
    double squares = 0.0;
    for (const Parameter& each : parameters) {
        squares += sum_of_squares(each.gradient);
    }
    return squares;
}

}  // namespace

void zero_gradients(std::span<const Parameter> parameters) {
    for (const Parameter& each : parameters) {
        std::fill(each.gradient.begin(), each.gradient.end(), 0.0F);
    }
}

double gradient_norm(std::span<const Parameter> parameters) { return std::sqrt(squares_of(parameters)); }

double sharded_gradient_norm(std::span<const Parameter> parameters, ProcessSet set) {
    std::array<double, 1> squares = {squares_of(parameters)};
    allreduce("rueda.training.gradients.squares", squares, {.op = ReduceOp::sum, .process_set = set});
    return std::sqrt(squares[0]);
}

double clip_factor(double norm, double max_norm) {
    if (!std::isfinite(norm) || norm < 0.0) {
        throw InvalidArgument(fmt::format(
            "clipping gradients: their norm is {}; it must be finite and at least 0. Skip a step whose gradients are "
            "not finite",
            norm));
    }
    if (!(max_norm > 0.0)) {
        throw InvalidArgument(fmt::format("clipping gradients: the largest norm is {}; it must be above 0", max_norm));
    }
    return norm <= max_norm ? 1.0 : max_norm / norm;
}

bool true_on_all_ranks(bool value, ProcessSet set) {
    std::array<std::uint8_t, 1> flag = {static_cast<std::uint8_t>(value ? 1 : 0)};
    allreduce("rueda.training.gradients.flag", flag, {.op = ReduceOp::min, .process_set = set});
    return flag[0] != 0;
}

}  // namespace rueda::training
