// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "training/replicas/local_reduction.hpp"

#include "base/floating_point.hpp"
#include "ops/reduce.hpp"
#include "rueda/types.hpp"

namespace rueda::training {

void add_up(std::span<float* const> sources, float* to, std::size_t first, std::size_t count) {
    std::vector<const std::byte*> from;
    from.reserve(sources.size());
    for (const float* source : sources) {
        from.push_back(reinterpret_cast<const std::byte*>(source + first));
    }
    auto* const target = reinterpret_cast<std::byte*>(to + first);
    const base::DefaultFloatingPoint environment;
    ops::reduce({.dtype = DType::float32, .op = ReduceOp::sum}, from, std::span(&target, 1), count);
}

}  // namespace rueda::training
