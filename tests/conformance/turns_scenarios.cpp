// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <random>
#include <thread>

#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"
#include "tests/support/ranks.hpp"

namespace rueda::tests {
namespace {

/// One of many operations that use the same cells (buffers for chunks) one after another.
struct TurnOfAll {
    std::int64_t rows;  ///< number of rows of each rank
    bool resident;
    int salt;
    std::string name;
};

void check_rows_of_all(const Tensor& result, const TurnOfAll& turn, const Client& client, std::size_t from) {
    const auto rows = static_cast<std::size_t>(turn.rows);
    for (int rank = 0; rank < client.size(); ++rank) {
        check_copy(result, static_cast<std::size_t>(rank) * rows, rows, rank, turn.salt, turn.name, from);
    }
}

void run_allreduce(Client& client, const TurnOfAll& turn) {
    const Buffer buffer(client, DType::int32, {turn.rows}, turn.resident);
    fill_input(buffer.tensor(), ReduceOp::sum, client.rank(), turn.salt);
    expect_ok(client.allreduce(turn.name, buffer.tensor(), buffer.tensor(), {ReduceOp::sum}), turn.name);
    check_allreduce(buffer.tensor(), {ReduceOp::sum}, client.size(), turn.salt, turn.name);
    buffer.check_margin(turn.name);
}

void run_broadcast(Client& client, const TurnOfAll& turn) {
    const int root = turn.salt % client.size();
    const Buffer buffer(client, DType::int32, {turn.rows}, turn.resident);
    if (client.rank() == root) {
        fill_input(buffer.tensor(), ReduceOp::sum, root, turn.salt);
    }
    expect_ok(client.broadcast(turn.name, buffer.tensor(), root), turn.name);
    check_copy(buffer.tensor(), 0, buffer.tensor().elements(), root, turn.salt, turn.name);
    buffer.check_margin(turn.name);
}

void run_allgather(Client& client, const TurnOfAll& turn) {
    const Buffer input(client, DType::int32, {turn.rows}, turn.resident);
    Buffer output(client, DType::int32, {turn.rows * client.size()}, false);
    output.clear();
    fill_input(input.tensor(), ReduceOp::sum, client.rank(), turn.salt);
    expect_value(client.allgather(turn.name, input.tensor(), &output.tensor()), turn.name);
    check_rows_of_all(output.tensor(), turn, client, 0);
    output.check_margin(turn.name);
}

void run_alltoall(Client& client, const TurnOfAll& turn) {
    const Buffer input(client, DType::int32, {turn.rows * client.size()}, turn.resident);
    Buffer output(client, DType::int32, {turn.rows * client.size()}, false);
    output.clear();
    fill_input(input.tensor(), ReduceOp::sum, client.rank(), turn.salt);
    expect_value(client.alltoall(turn.name, input.tensor(), {}, &output.tensor()), turn.name);
    check_rows_of_all(output.tensor(), turn, client, static_cast<std::size_t>(turn.rows * client.rank()));
    output.check_margin(turn.name);
}

void run_reducescatter(Client& client, const TurnOfAll& turn) {
    const Buffer input(client, DType::int32, {turn.rows * client.size()}, turn.resident);
    Buffer output(client, DType::int32, {turn.rows}, false);
    output.clear();
    fill_input(input.tensor(), ReduceOp::sum, client.rank(), turn.salt);
    expect_ok(client.reducescatter(turn.name, input.tensor(), output.tensor(), {ReduceOp::sum}), turn.name);
    check_reduction(output.tensor(), static_cast<std::size_t>(turn.rows * client.rank()), {ReduceOp::sum},
                    client.size(), turn.salt, turn.name);
    output.check_margin(turn.name);
}

/// Runs all kinds of operations in a random order. Their sizes use no cell, one cell, or many cells (buffers for
/// chunks), so that each kind gets cells that every other kind used before. In each round another rank is late.
void kinds_in_turns(Client& client) {
    constexpr std::array kRuns = {run_allreduce, run_broadcast, run_allgather, run_alltoall, run_reducescatter};
    constexpr std::array<std::int64_t, 6> kRows = {1, 700, 2'100, 5'000, 17'000, 33'000};
    std::mt19937 random(20261121);  // all ranks draw the same numbers
    for (int round = 0; round < 300; ++round) {
        const auto kind = static_cast<std::size_t>(random() % kRuns.size());
        const std::size_t size = random() % kRows.size();
        const bool resident = random() % 4 == 0;
        const auto late = static_cast<int>(random() % 8);
        if (late == client.rank()) {
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
        } else {
            static_cast<void>(random());
        }
        kRuns[kind](client,
                    {kRows[size], resident && client.rank() % 2 == 0, round, fmt::format("turns.{}.{}", kind, size)});
    }
}

constexpr std::array kScenarios = {
    Scenario{"turns: all kinds through the same cells", kinds_in_turns},
};

}  // namespace

std::span<const Scenario> turns_scenarios() { return kScenarios; }

}  // namespace rueda::tests
