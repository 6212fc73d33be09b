// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// Tests tensors that are compressed between hosts: the bits of the result, the number of bytes sent, and the error
// bounds.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "tests/collectives/hierarchical/hosts_of_threads.hpp"

namespace rueda::tests {
namespace {

using collectives::Operation;
using HostOf = std::vector<std::uint32_t>;

constexpr Compression kCompressions[] = {Compression::fp16, Compression::bf16};
constexpr DType kDTypes[] = {DType::float32, DType::float64};
constexpr ReduceOp kOps[] = {ReduceOp::average, ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product};

BatchPlan batch_of(std::vector<TensorPlan> tensors) {
    return {Operation::allreduce, std::move(tensors), 0, {}, {}, {}};
}

void check(const HostsShape& shape, const BatchPlan& plan, std::uint32_t seed) {
    INFO(shape.text() << ", seed " << seed);
    std::mt19937 random(seed);
    HostsOfThreads hosts(shape, {plan}, seed);
    REQUIRE(hosts.run(random));
    CHECK(hosts.check() == "");
}

TEST_CASE("compressed tensors of every dtype and reduction over several hosts", "[unit]") {
    const HostOf layouts[] = {{0, 1}, {0, 0, 1, 1}, {0, 1, 1, 2, 2, 2}, {0, 1, 2, 3, 4}, {0, 0, 0}};
    BatchPlan plan = batch_of({});
    for (const DType dtype : kDTypes) {
        for (const Compression compression : kCompressions) {
            for (const ReduceOp op : kOps) {
                plan.tensors.push_back({dtype, op, 37, 1.0, 1.0, compression});
                plan.tensors.push_back({dtype, op, 300, 0.5, 3.0, compression});
            }
        }
    }
    for (const HostOf& layout : layouts) {
        for (const Residency residency : {Residency::none, Residency::mixed, Residency::all}) {
            check({layout, 320, 3, residency, {512, 192}, 2}, plan, 21);
            check({layout, 65536, 4, residency, {65536, 0}, 0}, plan, 22);
        }
    }
}

TEST_CASE("compressed tensors, plain ones and averages of integers share the smallest cells", "[unit]") {
    const HostOf layout{0, 0, 0, 0, 1, 1, 1, 1};
    BatchPlan plan = batch_of({});
    for (const std::uint64_t count : {1U, 33U, 500U}) {
        plan.tensors.push_back({DType::float64, ReduceOp::average, count, 1.0, 1.0, Compression::bf16});
        plan.tensors.push_back({DType::int64, ReduceOp::average, count, 1.0, 1.0});
        plan.tensors.push_back({DType::float64, ReduceOp::sum, count, 1.0, 1.0});
        plan.tensors.push_back({DType::float32, ReduceOp::sum, count, 1.0, 1.0, Compression::fp16});
        plan.tensors.push_back({DType::uint8, ReduceOp::max, count, 1.0, 1.0});
    }
    check({layout, 256, 2, Residency::none, {512, 64}, 1}, plan, 23);
    check({layout, 256, 2, Residency::mixed, {512, 64}, 1}, plan, 24);
}

TEST_CASE("the bits of a compressed tensor depend neither on its batch nor on chunks, ways and residency", "[unit]") {
    const TensorPlan tensor{DType::float32, ReduceOp::average, 5000, 1.0, 1.0, Compression::fp16};
    const HostOf layout{0, 0, 1, 1, 2};
    std::vector<Bytes> results;
    for (const std::uint64_t small : {std::uint64_t{0}, std::uint64_t{1} << 20}) {
        for (const std::uint64_t chunk : {64U, 0U}) {
            for (const Residency residency : {Residency::none, Residency::all}) {
                for (const bool beside_others : {false, true}) {
                    BatchPlan plan = batch_of({tensor});
                    if (beside_others) {
                        plan.tensors.push_back({DType::float64, ReduceOp::sum, 77, 1.0, 1.0, Compression::bf16});
                        plan.tensors.push_back({DType::int32, ReduceOp::sum, 999, 1.0, 1.0});
                    }
                    std::mt19937 random(static_cast<std::uint32_t>(results.size()));
                    // The inputs of the first tensor are the first random numbers. So they are the same in all runs
                    // with this seed, even if the batch has more tensors.
                    HostsOfThreads hosts({layout, 1024, 4, residency, {small, chunk}, 2}, {plan}, 31);
                    REQUIRE(hosts.run(random));
                    for (std::uint32_t rank = 0; rank < hosts.size(); ++rank) {
                        results.push_back(hosts.output_of(rank));
                    }
                }
            }
        }
    }
    CHECK(std::all_of(results.begin(), results.end(), [&](const Bytes& result) { return result == results[0]; }));
}

std::uint64_t sent_bytes(const HostOf& layout, TensorPlan tensor, Compression compression) {
    tensor.compression = compression;
    HostsOfThreads hosts({layout, 4096, 4, Residency::none, {0, 0}, 0}, {batch_of({tensor})}, 1);
    std::mt19937 random(1);
    REQUIRE(hosts.run(random));
    std::uint64_t bytes = 0;
    for (std::uint32_t rank = 0; rank < hosts.size(); ++rank) {
        bytes += hosts.transport(rank).sent_bytes();
    }
    return bytes;
}

TEST_CASE("half the bytes of float32 cross between hosts, and a quarter of those of float64", "[unit]") {
    constexpr std::uint64_t kCount = 8 * 1024;
    for (const HostOf& layout : {HostOf{0, 1}, HostOf{0, 0, 1, 1}, HostOf{0, 0, 1, 1, 2, 2, 3, 3}}) {
        const std::uint64_t hosts = layout.back() + 1;
        for (const DType dtype : kDTypes) {
            const TensorPlan tensor{dtype, ReduceOp::sum, kCount, 1.0, 1.0};
            // In the reduce-scatter, each host combines one part, which all other hosts send to it. In the allgather,
            // each host sends its combined part to all other hosts.
            CHECK(sent_bytes(layout, tensor, Compression::none) == 2 * (hosts - 1) * kCount * size_of(dtype));
            for (const Compression compression : kCompressions) {
                CHECK(sent_bytes(layout, tensor, compression) == 2 * (hosts - 1) * kCount * 2);
            }
        }
    }
}

double value_at(DType dtype, const Bytes& elements, std::size_t i) {
    if (dtype == DType::float64) {
        double value = 0;
        std::memcpy(&value, elements.data() + i * sizeof(value), sizeof(value));
        return value;
    }
    float value = 0;
    std::memcpy(&value, elements.data() + i * sizeof(value), sizeof(value));
    return value;
}

/// The error bound of docs/compression.md for one element of a sum or average. `inputs` is indexed by rank.
struct Bound {
    double exact = 0;
    double most = 0;  // the largest allowed difference
    bool holds = true;

    Bound(const TensorPlan& tensor, const HostOf& layout, const std::vector<double>& inputs) {
        const bool halves = tensor.compression == Compression::fp16;
        const double u = halves ? 0x1p-11 : 0x1p-8;
        const double eta = halves ? 0x1p-25 : 0x1p-134;
        const double e = tensor.dtype == DType::float32 ? 0x1p-24 : 0x1p-53;
        const double n = static_cast<double>(inputs.size());
        const double factor = tensor.prescale / (tensor.op == ReduceOp::average ? n : 1.0);
        std::map<std::uint32_t, long double> partials;
        double magnitudes = 0;
        for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
            partials[layout[rank]] += static_cast<long double>(inputs[rank]) * factor;
            magnitudes += std::fabs(inputs[rank] * factor);
        }
        long double sum = 0;
        double of_partials = 0;
        for (const auto& [host, partial] : partials) {
            sum += partial;
            of_partials += std::fabs(static_cast<double>(partial));
        }
        const auto hosts = static_cast<double>(partials.size());
        const double s = std::fabs(tensor.postscale);
        exact = static_cast<double>(sum * tensor.postscale);
        most = s * ((2 * u + u * u) * of_partials + (hosts * (1 + u) + 1) * eta + (n + 6) * e * magnitudes);
        // The bound holds only if no sum overflows before the division, and if no value is close to double's subnormal
        // numbers.
        const double range = tensor.dtype == DType::float32 ? 3e38 : 1e300;
        holds = of_partials < (halves ? 65000.0 : 3e38) && magnitudes * n < range && magnitudes > 1e-290;
    }
};

TEST_CASE("compressed sums keep within the stated bounds of the exact ones", "[unit]") {
    constexpr std::size_t kCount = 8000;
    for (const HostOf& layout : {HostOf{0, 1}, HostOf{0, 0, 1, 1}, HostOf{0, 1, 2, 2}, HostOf{0, 1, 2, 3, 4, 5}}) {
        for (const DType dtype : kDTypes) {
            for (const Compression compression : kCompressions) {
                for (const ReduceOp op : {ReduceOp::average, ReduceOp::sum}) {
                    // Three pairs of prescale and postscale: no factor; a prescale that makes the values subnormal in
                    // float16; and two factors that both make the values smaller.
                    for (const auto& [before, after] : {std::pair{1.0, 1.0}, {0x1p-20, 1.0}, {0x1p-6, 0x1p-14}}) {
                        const TensorPlan tensor{dtype, op, kCount, before, after, compression};
                        HostsOfThreads hosts({layout, 4096, 4, Residency::none, {}, 0}, {batch_of({tensor})}, 7);
                        std::mt19937 random(1);
                        REQUIRE(hosts.run(random));
                        std::size_t looked_at = 0;
                        double worst = 0;
                        for (std::size_t i = 0; i < kCount; ++i) {
                            std::vector<double> inputs;
                            for (std::uint32_t rank = 0; rank < hosts.size(); ++rank) {
                                inputs.push_back(value_at(dtype, hosts.input_of(rank), i));
                            }
                            const Bound bound(tensor, layout, inputs);
                            if (bound.holds) {
                                ++looked_at;
                                const double error = std::fabs(value_at(dtype, hosts.output_of(0), i) - bound.exact);
                                worst = std::max(worst, error / bound.most);
                            }
                        }
                        INFO(fmt::format("{} hosts, {} of {} as {}, times {} and {}", layout.back() + 1, name_of(op),
                                         name_of(dtype), name_of(compression), before, after));
                        CHECK(looked_at > 50);
                        CHECK(worst <= 1.0);
                        CHECK(worst > 0.3);  // the bound must not be so wide that it hides errors
                    }
                }
            }
        }
    }
}

}  // namespace
}  // namespace rueda::tests
