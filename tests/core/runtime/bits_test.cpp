// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests that results depend only on the inputs, the number of ranks, and the placement of the ranks on hosts and NUMA
// nodes. They must not depend on batches, chunks, residency, order, timing, or whether a thread waits in the call.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"

namespace rueda::tests {
namespace {

constexpr int kTensors = 30;
constexpr int kLargeTensor = 17;  ///< this tensor takes many chunks; between hosts, each host combines a part of it

std::size_t length_of(int tensor) {
    return tensor == kLargeTensor ? 60'001 : 1 + static_cast<std::size_t>(tensor * 7919 % 3000);
}

struct Circumstances {
    std::uint32_t seed = 0;
    base::Config config = test_config();
};

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
    c.config.network_chunk_bytes = one_of({0, 4096, 16'384, 100'000});
    c.config.cells_per_rank = static_cast<std::uint32_t>(one_of({2, 3, 4, 8}));
    c.config.spin_seconds = static_cast<double>(one_of({0, 5})) * 1e-6;
    return c;
}

std::vector<float> inputs_of(int rank, int tensor) {
    std::mt19937 random(static_cast<unsigned>(tensor * 100 + rank));
    std::vector<float> values(length_of(tensor));
    std::uniform_real_distribution<float> mantissa(-1, 1);
    for (float& value : values) {
        // The sum of such values depends on the order of the additions.
        value = std::ldexp(mantissa(random), static_cast<int>(random() % 24) - 12);
    }
    return values;
}

/// Computes the sum as Rueda defines it: in rank order within each host, then host by host, rounded at each step. The
/// ranks are on `hosts` hosts of equal size, numbered host by host.
std::vector<float> sum_of(int size, int hosts, int tensor) {
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
        if (rank + 1 == size || (rank + 1) * hosts / size != rank * hosts / size) {
            add(sum, partial);
            partial.clear();
        }
    }
    return sum;
}

std::uint64_t digest(const void* memory, std::size_t bytes, std::uint64_t seed) {
    for (std::size_t i = 0; i < bytes; ++i) {  // the hash function FNV-1a
        seed = (seed ^ static_cast<const unsigned char*>(memory)[i]) * 0x100000001B3;
    }
    return seed;
}

/// A third of the tensors are float32 sums, a third float32 averages, and a third bfloat16 averages.
struct Kind {
    DType dtype;
    ReduceOp op;
};
Kind kind_of(int tensor) {
    return tensor % 3 == 0   ? Kind{DType::float32, ReduceOp::sum}
           : tensor % 3 == 1 ? Kind{DType::float32, ReduceOp::average}
                             : Kind{DType::bfloat16, ReduceOp::average};
}

std::unique_ptr<Buffer> buffer_of(RuntimeClient& client, int tensor, bool resident) {
    const std::vector<float> inputs = inputs_of(client.rank(), tensor);
    const DType dtype = kind_of(tensor).dtype;
    const std::size_t bytes = size_of(dtype);
    auto buffer =
        std::make_unique<Buffer>(client, dtype, std::vector{static_cast<std::int64_t>(inputs.size())}, resident);
    auto* memory = static_cast<std::byte*>(buffer->tensor().data);
    // The upper half of a float32 is a bfloat16, so the copy takes the upper bytes.
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        std::memcpy(memory + i * bytes, reinterpret_cast<const std::byte*>(&inputs[i]) + 4 - bytes, bytes);
    }
    return buffer;
}

void rest_a_little(std::mt19937& random) {
    if (random() % 4 == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    }
}

/// Starts all tensors in an order that is different on every rank, and waits for them.
std::vector<std::unique_ptr<Buffer>> reduce_in_background(RuntimeClient& client, std::mt19937& random) {
    std::vector<int> order(kTensors);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<std::unique_ptr<Buffer>> buffers(kTensors);
    std::vector<PendingPointer> pending;
    for (const int tensor : order) {
        auto& buffer = buffers[static_cast<std::size_t>(tensor)];
        buffer = buffer_of(client, tensor, random() % 2 == 0);
        rest_a_little(random);
        pending.push_back(expect_value(
            client.start_allreduce(std::to_string(tensor), buffer->tensor(), buffer->tensor(), {kind_of(tensor).op}),
            "a tensor"));
    }
    for (const auto& one : pending) {
        expect_ok(one->wait(), "a tensor");
    }
    return buffers;
}

/// Reduces every fourth tensor again by blocking calls. The results must have the same bits as in the background.
void compare_with_foreground(RuntimeClient& client, std::mt19937& random,
                             const std::vector<std::unique_ptr<Buffer>>& background) {
    for (int tensor = 0; tensor < kTensors; tensor += 4) {
        const std::unique_ptr<Buffer> buffer = buffer_of(client, tensor, random() % 2 == 0);
        rest_a_little(random);
        expect_ok(client.allreduce(std::to_string(tensor), buffer->tensor(), buffer->tensor(), {kind_of(tensor).op}),
                  "a tensor");
        RUEDA_RANK_CHECK(std::memcmp(background[static_cast<std::size_t>(tensor)]->tensor().data, buffer->tensor().data,
                                     buffer->tensor().bytes()) == 0);
    }
}

/// `hosts` is the number of equal hosts for sum_of(), or 0 if this placement does not reduce in the order of sum_of().
void reduce_all(RankContext& context, RuntimeClient& client, const Circumstances& circumstances, int hosts) {
    std::mt19937 random(circumstances.seed * 64 + static_cast<unsigned>(client.rank()));
    const std::vector<std::unique_ptr<Buffer>> buffers = reduce_in_background(client, random);
    compare_with_foreground(client, random, buffers);
    std::uint64_t all = 0xCBF29CE484222325;
    for (int tensor = 0; tensor < kTensors; ++tensor) {
        const Buffer& buffer = *buffers[static_cast<std::size_t>(tensor)];
        buffer.check_margin("a tensor");
        if (hosts != 0 && kind_of(tensor).op == ReduceOp::sum) {
            const std::vector<float> expected = sum_of(client.size(), hosts, tensor);
            RUEDA_RANK_CHECK(std::memcmp(expected.data(), buffer.tensor().data, buffer.tensor().bytes()) == 0);
        }
        all = digest(buffer.tensor().data, buffer.tensor().bytes(), all);
    }
    context.report("digest", all);
}

struct Place {
    int size = 1;
    Layout layout;  ///< the host of each rank; "" means that all ranks are on one host

    /// Returns the number of equal hosts for sum_of(), or 0 for three hosts. With three hosts, the algorithm between
    /// the hosts decides the order of the additions, and the size of the tensor decides the algorithm.
    [[nodiscard]] int equal_hosts() const { return layout.empty() ? 1 : layout == "ab" || layout == "aabb" ? 2 : 0; }
};

void check_bits(RanksAs as, const Place& place) {
    std::set<std::string> digests;
    for (std::uint32_t seed = 0; seed < 8; ++seed) {
        Circumstances circumstances = seed == 0 ? Circumstances{} : random_circumstances(seed);
        const RanksResult result = run_clients(
            place.size, circumstances.config,
            [&](RankContext& context, RuntimeClient& client) {
                reduce_all(context, client, circumstances, place.equal_hosts());
            },
            {.as = as}, place.layout);
        INFO(place.size << " ranks, hosts " << place.layout << ", seed " << seed << "\n" << result.text());
        REQUIRE(result.passed());
        for (const RankOutcome& rank : result.ranks) {
            digests.insert(rank.value("digest"));
        }
    }
    CHECK(digests.size() == 1);
}

void check_bits_on_one_host(RanksAs as) {
    const int size = GENERATE(1, 2, 3, 5);
    check_bits(as, {.size = size, .layout = {}});
}

TEST_CASE("the same bits under all circumstances, as threads", "[threads]") {
    check_bits_on_one_host(RanksAs::threads);
}

TEST_CASE("the same bits under all circumstances, as processes", "[processes]") {
    check_bits_on_one_host(RanksAs::processes);
}

TEST_CASE("the same bits under all circumstances, on several hosts", "[threads]") {
    const Layout layout = GENERATE("ab", "aabb", "abb", "abcc");
    check_bits(RanksAs::threads, {.size = static_cast<int>(layout.size()), .layout = layout});
}

}  // namespace
}  // namespace rueda::tests
