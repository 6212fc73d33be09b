// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// Integer reductions that are used less often: averages, scale factors and products. Intermediate values of averages
// and scale factors need more bits than the elements. The code consists of plain loops over a block that stays in the
// first-level cache. The machine code is the same on every CPU.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ops/integers-inl.hpp"
#include "ops/pass.hpp"

namespace rueda::ops {
namespace {

/// The number of elements that are processed at a time. Their sums take 4 KiB if a sum has 128 bits, and 2 KiB if a sum
/// has 64 bits.
constexpr std::size_t kBlock = 256;

/// Combines two values. Sums and products are computed modulo 2^bits.
template <class A>
A combine(ReduceOp op, A a, A b) {
    // The unsigned type has at least 32 bits. Smaller types would be promoted to signed int, whose products may
    // overflow.
    using Unsigned = std::conditional_t<sizeof(A) <= 4, std::uint32_t, std::uint64_t>;
    switch (op) {
        case ReduceOp::min:
            return std::min(a, b);
        case ReduceOp::max:
            return std::max(a, b);
        case ReduceOp::product:
            return static_cast<A>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
        case ReduceOp::sum:
        case ReduceOp::average:
        case ReduceOp::adasum:
            break;
    }
    return static_cast<A>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
}

template <class T>
class ExactPass {
public:
    ExactPass(const Reduction& reduction, const Pass& pass) : reduction_(reduction), pass_(pass) {}

    void run() {
        for (std::size_t begin = 0; begin < pass_.count; begin += kBlock) {
            const std::size_t length = std::min(kBlock, pass_.count - begin);
            if (reduction_.op == ReduceOp::average) {
                average(begin, length);
            } else {
                reduce(begin, length);
            }
            for (std::size_t d = 0; d < pass_.destination_count; ++d) {
                std::memcpy(pass_.destinations[d] + begin * sizeof(T), values_.data(), length * sizeof(T));
            }
        }
    }

private:
    void load(std::size_t source, std::size_t begin, std::size_t length) {
        std::memcpy(values_.data(), pass_.sources[source] + begin * sizeof(T), length * sizeof(T));
        if (reduction_.prescale != 1.0) {
            for (std::size_t i = 0; i < length; ++i) {
                values_[i] = truncated<T>(static_cast<double>(values_[i]) * reduction_.prescale);
            }
        }
    }

    void average(std::size_t begin, std::size_t length) {
        std::array<Wide<T>, kBlock> sums;
        std::fill_n(sums.begin(), length, Wide<T>{0});
        for (std::size_t s = 0; s < pass_.source_count; ++s) {
            load(s, begin, length);
            for (std::size_t i = 0; i < length; ++i) {
                sums[i] += values_[i];
            }
        }
        for (std::size_t i = 0; i < length; ++i) {
            values_[i] = average_of<T>(sums[i], reduction_);
        }
    }

    void reduce(std::size_t begin, std::size_t length) {
        std::array<T, kBlock> results;
        load(0, begin, length);
        std::copy_n(values_.begin(), length, results.begin());
        for (std::size_t s = 1; s < pass_.source_count; ++s) {
            load(s, begin, length);
            for (std::size_t i = 0; i < length; ++i) {
                results[i] = combine(reduction_.op, results[i], values_[i]);
            }
        }
        for (std::size_t i = 0; i < length; ++i) {
            values_[i] = reduction_.postscale == 1.0
                             ? results[i]
                             : truncated<T>(static_cast<double>(results[i]) * reduction_.postscale);
        }
    }

    const Reduction& reduction_;
    const Pass& pass_;
    std::array<T, kBlock> values_;  // holds the values of one source, and later the result
};

}  // namespace

void reduce_exact(const Reduction& reduction, const Pass& pass) {
    with_integer(reduction.dtype, [&]<class T>(T) { ExactPass<T>(reduction, pass).run(); });
}

}  // namespace rueda::ops
