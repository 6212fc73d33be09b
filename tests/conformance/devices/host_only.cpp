// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/conformance/devices/host_only.hpp"

#include <algorithm>
#include <array>

namespace rueda::tests {
namespace {

bool is_floating(DType dtype) {
    return dtype == DType::float16 || dtype == DType::bfloat16 || dtype == DType::float32 || dtype == DType::float64;
}

bool has_factors(const Reduce& reduce) { return reduce.prescale != 1.0 || reduce.postscale != 1.0; }

bool is_sum_or_average(const Reduce& reduce) { return reduce.op == ReduceOp::sum || reduce.op == ReduceOp::average; }

constexpr std::array kReductions{
    HostOnly{"Adasum", [](DType, const Reduce& reduce) { return reduce.op == ReduceOp::adasum; }, DType::float32,
             Reduce{ReduceOp::adasum}},
    HostOnly{"compression", [](DType, const Reduce& reduce) { return reduce.compression != Compression::none; },
             DType::float32, Reduce{ReduceOp::sum, 1, 1, Compression::bf16}},
    HostOnly{"16-bit integers",
             [](DType dtype, const Reduce&) { return dtype == DType::int16 || dtype == DType::uint16; }, DType::int16,
             Reduce{}},
    HostOnly{"factors for minimum, maximum and product",
             [](DType dtype, const Reduce& reduce) {
                 return is_floating(dtype) && has_factors(reduce) && !is_sum_or_average(reduce);
             },
             DType::float32, Reduce{ReduceOp::max, 0.5}},
    HostOnly{"factors for integers",
             [](DType dtype, const Reduce& reduce) { return !is_floating(dtype) && has_factors(reduce); }, DType::int32,
             Reduce{ReduceOp::sum, 2}},
};

}  // namespace

std::span<const HostOnly> host_only_reductions() { return kReductions; }

bool is_host_only(DType dtype, const Reduce& reduce) {
    return std::any_of(kReductions.begin(), kReductions.end(),
                       [&](const HostOnly& one) { return one.is(dtype, reduce); });
}

}  // namespace rueda::tests
