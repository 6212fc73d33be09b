// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "ops/reduce.hpp"

#include "base/assert.hpp"
#include "ops/adasum.hpp"
#include "ops/integers-inl.hpp"
#include "ops/pass.hpp"

namespace rueda::ops {
namespace {

bool needs_exact_integers(const Reduction& reduction) {
    return is_integer(reduction.dtype) && (reduction.op == ReduceOp::average || reduction.op == ReduceOp::product ||
                                           reduction.prescale != 1.0 || reduction.postscale != 1.0);
}

}  // namespace

void reduce(const Reduction& reduction, std::span<const std::byte* const> sources,
            std::span<std::byte* const> destinations, std::size_t count, Store store) {
    RUEDA_ASSERT(!sources.empty() && !destinations.empty());
    if (reduction.op == ReduceOp::adasum) [[unlikely]] {
        adasum(reduction, sources, destinations, count);
        return;
    }
    RUEDA_ASSERT(reduction.op != ReduceOp::average || reduction.divisor > 0);
    RUEDA_ASSERT(is_defined(reduction));
    if (count == 0) {
        return;
    }
    const Pass pass{sources.data(),      sources.size(), destinations.data(),
                    destinations.size(), count,          store == Store::streaming};
    if (needs_exact_integers(reduction)) {
        reduce_exact(reduction, pass);
    } else if (reduction.dtype == DType::float16 || reduction.dtype == DType::bfloat16) {
        reduce_half_floats(reduction, pass);
    } else if (is_float8(reduction.dtype)) {
        reduce_float8(reduction, pass);
    } else if (reduction.dtype == DType::float32 || reduction.dtype == DType::float64) {
        reduce_floats(reduction, pass);
    } else {
        reduce_integers(reduction, pass);
    }
}

}  // namespace rueda::ops
