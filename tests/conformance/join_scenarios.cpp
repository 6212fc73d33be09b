// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"
#include "tests/support/ranks.hpp"

namespace rueda::tests {
namespace {

/// Ranks with different numbers of batches, some of them in resident memory; and again.
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
            // The library multiplies by what this divides by: the last bit may differ.
            RUEDA_RANK_CHECK(std::abs(values[0] - expected) <= expected * 1e-15);
            RUEDA_RANK_EQUAL(values[count - 1], values[0]);
        }
        const int last = expect_value(client.join(counted), "join");
        RUEDA_RANK_CHECK(last >= 0 && last < client.size());
    }
}

constexpr std::array kScenarios = {
    Scenario{"allreduce: without ranks that have joined", joins},
};

}  // namespace

std::span<const Scenario> join_scenarios() { return kScenarios; }

}  // namespace rueda::tests
