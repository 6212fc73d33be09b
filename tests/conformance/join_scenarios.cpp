// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"
#include "tests/ops/adasum_reference.hpp"
#include "tests/support/ranks.hpp"

namespace rueda::tests {
namespace {

/// In each of several rounds, each rank has a different number of batches, some of them in resident memory. A rank
/// joins after its last batch.
void joins(Client& client) {
    const auto batches_of = [](int rank, int round) { return (rank * 2 + round) % 5; };
    for (int round = 0; round < 4; ++round) {
        const bool counted = round % 2 == 0;
        for (int step = 0; step < batches_of(client.rank(), round); ++step) {
            const std::int64_t count = step % 2 == 0 ? 7 : 70'000;
            const Buffer buffer(client, DType::float64, {count}, (client.rank() + step) % 3 == 0);
            auto* values = static_cast<double*>(buffer.tensor().data);
            int active = 0;
            double total = 0;
            for (int rank = 0; rank < client.size(); ++rank) {
                active += step < batches_of(rank, round) ? 1 : 0;
                total += step < batches_of(rank, round) ? 10 * rank + step : 0;
            }
            std::fill_n(values, count, 10.0 * client.rank() + step);
            expect_ok(
                client.allreduce(fmt::format("join.{}", count), buffer.tensor(), buffer.tensor(), {ReduceOp::average}),
                "an average without some ranks");
            const double expected = total / (counted ? client.size() : active);
            // The library multiplies by the reciprocal and the test divides, so the last bit may differ.
            RUEDA_RANK_CHECK(std::abs(values[0] - expected) <= expected * 1e-15);
            RUEDA_RANK_EQUAL(values[count - 1], values[0]);
        }
        const int last = expect_value(client.join(counted), "join");
        RUEDA_RANK_CHECK(last >= 0 && last < client.size());
    }
}

/// In an Adasum, a joined rank counts as zeros at its place in the tree.
void joins_of_adasum(Client& client) {
    if (client.local_size() != client.size()) {
        return;
    }
    for (const std::int64_t count : {std::int64_t{5}, std::int64_t{3000}, std::int64_t{70'000}}) {
        for (int round = 0; round < 3; ++round) {
            const auto takes_part = [&](int rank) { return (rank + round) % 3 != 0 || client.size() == 1; };
            if (takes_part(client.rank())) {
                std::vector<ops::test::Bytes> inputs;
                for (int rank = 0; rank < client.size(); ++rank) {
                    std::mt19937_64 random(static_cast<std::uint64_t>(count * 100 + rank));
                    inputs.push_back(
                        ops::test::random_gradients(DType::float32, static_cast<std::size_t>(count), random));
                    if (!takes_part(rank)) {
                        std::fill(inputs.back().begin(), inputs.back().end(), std::byte{0});
                    }
                }
                const Buffer buffer(client, DType::float32, {count}, (client.rank() + round) % 2 == 0);
                const ops::test::Bytes& mine = inputs[static_cast<std::size_t>(client.rank())];
                std::copy(mine.begin(), mine.end(), static_cast<std::byte*>(buffer.tensor().data));
                expect_ok(client.allreduce(fmt::format("join.adasum.{}", count), buffer.tensor(), buffer.tensor(),
                                           {ReduceOp::adasum}),
                          "adasum without some ranks");
                const auto wanted = ops::test::values_of(
                    DType::float32, ops::test::expected_adasum({.dtype = DType::float32, .op = ReduceOp::adasum},
                                                               inputs, static_cast<std::size_t>(count),
                                                               static_cast<std::uint32_t>(client.size()), 1));
                const auto* const found = static_cast<const float*>(buffer.tensor().data);
                for (std::size_t i = 0; i < wanted.size(); ++i) {
                    RUEDA_RANK_CHECK(static_cast<long double>(found[i]) == wanted[i] ||
                                     (std::isnan(found[i]) && std::isnan(wanted[i])));
                }
            }
            expect_value(client.join(true), "join");
        }
    }
}

constexpr std::array kScenarios = {
    Scenario{"allreduce: without ranks that have joined", joins},
    Scenario{"adasum: without ranks that have joined", joins_of_adasum},
};

}  // namespace

std::span<const Scenario> join_scenarios() { return kScenarios; }

}  // namespace rueda::tests
