// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/collectives/hierarchical/between_hosts.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "tests/ops/buffers.hpp"

namespace rueda::tests {
namespace {

using ops::test::Bytes;

struct Factors {
    ops::Reduction within;
    ops::Reduction between;
    ops::Reduction last;
};

Factors factors_of(const ops::Reduction& r) {
    Factors factors{r, r, r};
    const bool linear = r.op == ReduceOp::sum || r.op == ReduceOp::average;
    factors.within.postscale = 1.0;
    factors.between.prescale = factors.between.postscale = factors.last.prescale = 1.0;
    if (r.op == ReduceOp::average) {
        factors.within.op = factors.between.op = ReduceOp::sum;
    }
    // For float16 and 8-bit floats, each host applies the postscale to its partial result. The postscale of an average
    // contains the division. So the partial results are already divided, and fit into the type's range if the final
    // average fits.
    if ((r.dtype == DType::float16 || ops::is_float8(r.dtype)) && linear) {
        factors.within.postscale = r.op == ReduceOp::average ? r.postscale / r.divisor : r.postscale;
        factors.last.op = ReduceOp::sum;
        factors.last.postscale = 1.0;
    }
    return factors;
}

/// Combines the parts of the hosts that contribute data. Even a single part goes through expected(), because
/// `reduction` may contain a factor.
Bytes combined(const ops::Reduction& reduction, const std::vector<Bytes>& parts, std::size_t count) {
    std::vector<Bytes> present;
    std::copy_if(parts.begin(), parts.end(), std::back_inserter(present),
                 [](const Bytes& part) { return !part.empty(); });
    return present.empty() ? Bytes() : ops::test::expected(reduction, present, count);
}

Bytes balanced(const Factors& factors, std::vector<Bytes> hosts, std::size_t count) {
    std::size_t power = 1;
    while (2 * power <= hosts.size()) {
        power *= 2;
    }
    const std::size_t more = hosts.size() - power;
    std::vector<Bytes> left;
    for (std::size_t host = 0; host < hosts.size(); host += host < 2 * more ? 2 : 1) {
        left.push_back(host < 2 * more ? combined(factors.between, {hosts[host], hosts[host + 1]}, count)
                                       : hosts[host]);
    }
    while (left.size() > 1) {
        std::vector<Bytes> next;
        for (std::size_t i = 0; i < left.size(); i += 2) {
            next.push_back(combined(left.size() == 2 ? factors.last : factors.between, {left[i], left[i + 1]}, count));
        }
        left = std::move(next);
    }
    return left[0];
}

}  // namespace

Bytes expected_between_hosts(const ops::Reduction& reduction, const std::vector<std::vector<Bytes>>& inputs,
                             std::size_t count, HostOrder order) {
    if (ops::test::is_integer(reduction.dtype) &&
        // The average is computed from the exact integer sum, so the order does not matter.
        reduction.op == ReduceOp::average) {
        std::vector<Bytes> all;
        for (const std::vector<Bytes>& host : inputs) {
            all.insert(all.end(), host.begin(), host.end());
        }
        return ops::test::expected(reduction, all, count);
    }
    const Factors factors = factors_of(reduction);
    std::vector<Bytes> partials;
    for (const std::vector<Bytes>& host : inputs) {
        partials.push_back(combined(factors.within, host, count));
    }
    if (partials.size() == 1 || order == HostOrder::by_host) {
        return combined(factors.last, partials, count);
    }
    return balanced(factors, partials, count);
}

namespace {

/// Rounds float32 or float64 elements as if they had been sent as 16-bit elements.
Bytes rounded(DType dtype, DType halves, const Bytes& elements) {
    const auto round = [&](auto value) {
        Bytes result = elements;
        for (std::size_t at = 0; at < result.size(); at += sizeof(value)) {
            std::memcpy(&value, result.data() + at, sizeof(value));
            value = static_cast<decltype(value)>(
                ops::test::decode(halves, ops::test::encode(halves, static_cast<double>(value))));
            std::memcpy(result.data() + at, &value, sizeof(value));
        }
        return result;
    };
    return dtype == DType::float32 ? round(0.0F) : round(0.0);
}

}  // namespace

Bytes expected_compressed(const ops::Reduction& reduction, Compression compression,
                          const std::vector<std::vector<Bytes>>& inputs, std::size_t count) {
    const DType halves = compression == Compression::fp16 ? DType::float16 : DType::bfloat16;
    const DType dtype = reduction.dtype;
    ops::Reduction within = reduction;
    within.postscale = 1.0;
    if (reduction.op == ReduceOp::average) {
        within.op = ReduceOp::sum;
        within.postscale = 1.0 / reduction.divisor;
    }
    std::vector<Bytes> partials;
    for (const std::vector<Bytes>& host : inputs) {
        if (host.empty()) {
            continue;  // all ranks of this host have joined, so the host sends neutral elements
        }
        partials.push_back(rounded(dtype, halves, ops::test::expected(within, host, count)));
    }
    const Bytes all = ops::test::expected({.dtype = dtype, .op = within.op}, partials, count);
    return ops::test::expected({.dtype = dtype, .op = ReduceOp::sum, .postscale = reduction.postscale},
                               {rounded(dtype, halves, all)}, count);
}

}  // namespace rueda::tests
