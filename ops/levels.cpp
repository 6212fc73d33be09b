// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "ops/levels.hpp"

#include "ops/integers-inl.hpp"

namespace rueda::ops {
namespace {

bool has_small_range(DType dtype) { return dtype == DType::float16 || is_float8(dtype); }

bool is_linear(ReduceOp op) { return op == ReduceOp::sum || op == ReduceOp::average; }

}  // namespace

std::optional<Levels> levels_of(const Reduction& reduction) {
    if (reduction.op == ReduceOp::adasum || (reduction.op == ReduceOp::average && is_integer(reduction.dtype))) {
        return std::nullopt;
    }
    Levels levels{reduction, reduction};
    levels.across.prescale = 1.0;
    levels.within.postscale = 1.0;
    if (reduction.op == ReduceOp::average) {
        levels.within.op = ReduceOp::sum;
    }
    if (has_small_range(reduction.dtype) && is_linear(reduction.op)) {
        levels.within.postscale =
            reduction.op == ReduceOp::average ? reduction.postscale / reduction.divisor : reduction.postscale;
        levels.across.postscale = 1.0;
        levels.across.op = ReduceOp::sum;
    }
    return levels;
}

}  // namespace rueda::ops
