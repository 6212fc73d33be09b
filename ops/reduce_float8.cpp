// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/assert.hpp"
#include "ops/cuda/reduce_body.hpp"
#include "ops/pass.hpp"

// The 8-bit floats have no vector code of their own for each SIMD target. They use the operations of the device kernels
// on blocks of float32, which the compiler turns into vector code of the base target.
namespace rueda::ops {
namespace {

/// The number of elements that are combined at once. Two blocks of float32 fit into the cache of the first level.
constexpr std::uint32_t kFloat8Block = 256;

using Float8Block = float[kFloat8Block];

/// The values of all patterns.
template <class Element>
const std::array<float, 256>& float8_values() {
    static const std::array<float, 256> values = [] {
        std::array<float, 256> all{};
        for (std::uint32_t bits = 0; bits < all.size(); ++bits) {
            all[bits] = Element::load(static_cast<std::uint8_t>(bits));
        }
        return all;
    }();
    return values;
}

template <class Element>
void reduce_float8_as(const Reduction& reduction, const Pass& pass) {
    const std::array<float, 256>& values = float8_values<Element>();
    const double after =
        reduction.op == ReduceOp::average ? reduction.postscale / reduction.divisor : reduction.postscale;
    Float8Block all = {};
    Float8Block one = {};
    std::uint8_t result[kFloat8Block] = {};
    for (std::size_t begin = 0; begin < pass.count; begin += kFloat8Block) {
        const std::size_t length = std::min<std::size_t>(kFloat8Block, pass.count - begin);
        const auto load = [&](std::size_t source, Float8Block& block) {
            for (std::size_t i = 0; i < length; ++i) {
                block[i] = values[std::to_integer<std::uint8_t>(pass.sources[source][begin + i])];
            }
            cuda::multiply(block, reduction.prescale);
        };
        load(0, all);
        for (std::size_t source = 1; source < pass.source_count; ++source) {
            load(source, one);
            cuda::combine(reduction.op, all, one);
        }
        cuda::multiply(all, after);
        for (std::uint32_t i = 0; i < kFloat8Block; ++i) {  // a constant count lets the compiler use vectors
            result[i] = Element::store(all[i]);
        }
        for (std::size_t d = 0; d < pass.destination_count; ++d) {
            std::memcpy(pass.destinations[d] + begin, result, length);
        }
    }
}

}  // namespace

void reduce_float8(const Reduction& reduction, const Pass& pass) {
    RUEDA_ASSERT(is_float8(reduction.dtype));
    if (reduction.dtype == DType::float8_e4m3fn) {
        reduce_float8_as<cuda::Float8E4M3>(reduction, pass);
    } else {
        reduce_float8_as<cuda::Float8E5M2>(reduction, pass);
    }
}

}  // namespace rueda::ops
