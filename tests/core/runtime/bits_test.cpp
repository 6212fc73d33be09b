// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Results do not depend on anything but the inputs, the number of ranks and their NUMA nodes: not on batches, chunks,
// residency, order or timing (DESIGN: fixed order of reduction).
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <thread>

#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"

namespace rueda::tests {
namespace {

constexpr int kTensors = 30;

struct Circumstances {
    std::uint32_t seed = 0;
    base::Config config = test_config();
};

/// Ranks on so many NUMA nodes, the members of each combined first; 1: in rank order.
void set_nodes(base::Config& config, int nodes) {
    if (nodes > 1) {
        config.numa_first = true;
        config.topology = "numa:" + std::to_string(nodes) + " core:2 pu:1";
    }
}

Circumstances random_circumstances(std::uint32_t seed) {
    std::mt19937 random(seed);
    const auto one_of = [&](std::initializer_list<std::uint64_t> values) {
        return *(values.begin() + random() % values.size());
    };
    Circumstances c;
    c.seed = seed;
    c.config.fusion_threshold_bytes = one_of({0, 1000, 30'000, base::kMiB});
    c.config.hold_seconds = static_cast<double>(one_of({0, 50, 1000})) * 1e-6;
    c.config.chunk_bytes = one_of({64, 256, 1024, 8192});
    c.config.cells_per_rank = static_cast<std::uint32_t>(one_of({2, 3, 4, 8}));
    c.config.spin_seconds = static_cast<double>(one_of({0, 5})) * 1e-6;
    return c;
}

std::vector<float> inputs_of(int rank, int tensor) {
    std::mt19937 random(static_cast<unsigned>(tensor * 100 + rank));
    std::vector<float> values(1 + random() % 3000);  // overwritten below: the same length on all ranks
    values.resize(1 + static_cast<std::size_t>(tensor * 7919 % 3000));
    std::uniform_real_distribution<float> mantissa(-1, 1);
    for (float& value : values) {
        value = std::ldexp(mantissa(random), static_cast<int>(random() % 24) - 12);  // sums depend on their order
    }
    return values;
}

/// The definition: node by node, and in rank order within each, rounded at each step.
std::vector<float> sum_of(int size, int nodes, int tensor) {
    std::vector<float> sum;
    std::vector<float> partial;
    const auto add = [](std::vector<float>& to, const std::vector<float>& other) {
        to.resize(other.size());
        for (std::size_t i = 0; i < other.size(); ++i) {
            to[i] += other[i];
        }
    };
    for (int rank = 0; rank < size; ++rank) {
        add(partial, inputs_of(rank, tensor));
        if (rank + 1 == size || (rank + 1) * nodes / size != rank * nodes / size) {
            add(sum, partial);
            partial.clear();
        }
    }
    return sum;
}

std::uint64_t digest(const void* memory, std::size_t bytes, std::uint64_t seed) {
    for (std::size_t i = 0; i < bytes; ++i) {  // FNV-1a
        seed = (seed ^ static_cast<const unsigned char*>(memory)[i]) * 0x100000001B3;
    }
    return seed;
}

/// Every third tensor is an average of 16-bit numbers, every third an average, the others are sums.
struct Kind {
    DType dtype;
    ReduceOp op;
};
Kind kind_of(int tensor) {
    return tensor % 3 == 0   ? Kind{DType::float32, ReduceOp::sum}
           : tensor % 3 == 1 ? Kind{DType::float32, ReduceOp::average}
                             : Kind{DType::bfloat16, ReduceOp::average};
}

void reduce_all(RankContext& context, RuntimeClient& client, const Circumstances& circumstances, int nodes) {
    std::mt19937 random(circumstances.seed * 64 + static_cast<unsigned>(client.rank()));
    std::vector<int> order(kTensors);
    for (int i = 0; i < kTensors; ++i) {
        order[static_cast<std::size_t>(i)] = i;
    }
    std::shuffle(order.begin(), order.end(), random);
    std::vector<std::unique_ptr<Buffer>> buffers(kTensors);
    std::vector<PendingPointer> pending;
    for (const int tensor : order) {
        const std::vector<float> inputs = inputs_of(client.rank(), tensor);
        const auto [dtype, op] = kind_of(tensor);
        auto& buffer = buffers[static_cast<std::size_t>(tensor)];
        buffer = std::make_unique<Buffer>(client, dtype, std::vector{static_cast<std::int64_t>(inputs.size())},
                                          random() % 2 == 0);
        auto* memory = static_cast<std::byte*>(buffer->tensor().data);
        for (std::size_t i = 0; i < inputs.size(); ++i) {  // the upper half of a float is a bfloat16
            const std::size_t bytes = size_of(dtype);
            std::memcpy(memory + i * bytes, reinterpret_cast<const std::byte*>(&inputs[i]) + 4 - bytes, bytes);
        }
        if (random() % 4 == 0) {
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
        }
        pending.push_back(expect_value(
            client.start_allreduce(std::to_string(tensor), buffer->tensor(), buffer->tensor(), {op}), "a tensor"));
    }
    for (const auto& one : pending) {
        expect_ok(one->wait(), "a tensor");
    }
    std::uint64_t all = 0xCBF29CE484222325;
    for (int tensor = 0; tensor < kTensors; ++tensor) {
        const Buffer& buffer = *buffers[static_cast<std::size_t>(tensor)];
        buffer.check_margin("a tensor");
        if (kind_of(tensor).op == ReduceOp::sum) {
            const std::vector<float> expected = sum_of(client.size(), nodes, tensor);
            RUEDA_RANK_CHECK(std::memcmp(expected.data(), buffer.tensor().data, buffer.tensor().bytes()) == 0);
        }
        all = digest(buffer.tensor().data, buffer.tensor().bytes(), all);
    }
    context.report("digest", all);
}

void check_bits(RanksAs as) {
    const int size = GENERATE(1, 2, 3, 5);
    const int nodes = GENERATE(1, 2);
    if (nodes > 1 && size < 3) {
        return;  // nobody to combine with first
    }
    std::set<std::string> digests;
    for (std::uint32_t seed = 0; seed < 8; ++seed) {
        Circumstances circumstances = seed == 0 ? Circumstances{} : random_circumstances(seed);
        set_nodes(circumstances.config, nodes);
        const RanksResult result = run_clients(
            size, circumstances.config,
            [&](RankContext& context, RuntimeClient& client) { reduce_all(context, client, circumstances, nodes); },
            {.as = as});
        INFO(size << " ranks, " << nodes << " nodes, seed " << seed << "\n" << result.text());
        REQUIRE(result.passed());
        for (const RankOutcome& rank : result.ranks) {
            digests.insert(rank.value("digest"));
        }
    }
    CHECK(digests.size() == 1);
}

TEST_CASE("the same bits under all circumstances, as threads", "[threads]") { check_bits(RanksAs::threads); }

TEST_CASE("the same bits under all circumstances, as processes", "[processes]") { check_bits(RanksAs::processes); }

}  // namespace
}  // namespace rueda::tests
