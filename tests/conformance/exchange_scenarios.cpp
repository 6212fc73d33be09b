// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"
#include "tests/support/ranks.hpp"

namespace rueda::tests {
namespace {

std::int64_t extent(std::size_t value) { return static_cast<std::int64_t>(value); }

void broadcasts(Client& client) {
    int salt = 0;
    for (const Residency residency : kResidencies) {
        for (int root = 0; root < client.size(); ++root) {
            for (const DType dtype : {DType::uint8, DType::float16, DType::float64}) {
                std::vector<Buffer> buffers;
                std::vector<PendingPointer> pending;
                const std::vector<std::size_t> sizes = {0, 1, 9, 10, 11, 79, 81, 1000, 10000};
                ++salt;
                for (const std::size_t size : sizes) {
                    buffers.emplace_back(client, dtype, std::vector{extent(size)},
                                         is_resident(residency, client.rank(), salt));
                    const Tensor& tensor = buffers.back().tensor();
                    if (client.rank() == root) {
                        fill_input(tensor, ReduceOp::sum, root, salt);
                    }
                    const std::string name = fmt::format("broadcast.{}.{}", rueda::name_of(dtype), size);
                    if (size % 2 == 0) {
                        expect_ok(client.broadcast(name, tensor, root), name);
                    } else {
                        pending.push_back(expect_value(client.start_broadcast(name, tensor, root), name));
                    }
                }
                for (const auto& one : pending) {
                    expect_ok(one->wait(), "a broadcast");
                }
                for (std::size_t i = 0; i < sizes.size(); ++i) {
                    const std::string what =
                        fmt::format("broadcast of {} {} from {}", sizes[i], rueda::name_of(dtype), root);
                    check_copy(buffers[i].tensor(), 0, sizes[i], root, salt, what);
                    buffers[i].check_margin(what);
                }
            }
        }
    }
}

/// Rows of rank `rank` in round `round`; in some rounds nobody has any, or one rank alone.
std::int64_t rows_of(int rank, int size, int round) {
    switch (round) {
        case 0:
            return 0;
        case 1:
            return rank == size - 1 ? 3 : 0;
        case 2:
            return rank == 0 ? 500 : rank % 2;
        default:
            return (rank * 5 + round) % 7;
    }
}

void allgathers(Client& client) {
    const int size = client.size();
    int salt = 0;
    for (const Residency residency : kResidencies) {
        for (int round = 0; round < 6; ++round) {
            for (const std::int64_t row : {0, 1, 20, 300}) {
                ++salt;
                const DType dtype = salt % 3 == 0 ? DType::int64 : salt % 3 == 1 ? DType::float32 : DType::int8;
                const Buffer mine(client, dtype, {rows_of(client.rank(), size, round), row},
                                  is_resident(residency, client.rank(), salt));
                fill_input(mine.tensor(), ReduceOp::sum, client.rank(), salt);
                const std::string what =
                    fmt::format("allgather of rows of {}, round {}, {}", row, round, name_of(residency));
                const auto pending = expect_value(
                    client.start_allgather(fmt::format("allgather.{}.{}", row, rueda::name_of(dtype)), mine.tensor()),
                    what);
                expect_ok(pending->wait(), what);

                const Tensor output = pending->output();
                std::int64_t rows = 0;
                for (int rank = 0; rank < size; ++rank) {
                    rows += rows_of(rank, size, round);
                }
                RUEDA_RANK_EQUAL(fmt::format("{}", fmt::join(output.shape, ",")), fmt::format("{},{}", rows, row));
                RUEDA_RANK_CHECK(output.dtype == dtype);
                std::int64_t first = 0;
                for (int rank = 0; rank < size; ++rank) {
                    const std::int64_t elements = rows_of(rank, size, round) * row;
                    check_copy(output, static_cast<std::size_t>(first), static_cast<std::size_t>(elements), rank, salt,
                               what);
                    first += elements;
                }
            }
        }
    }
}

/// Nobody leaves before the last has come.
void barriers(Client& client) {
    for (int i = 0; i < 50; ++i) {
        expect_ok(client.barrier(), "a barrier");
    }
    // CLOCK_MONOTONIC is one clock for all processes of a host.
    const auto now = [] { return std::int64_t{std::chrono::steady_clock::now().time_since_epoch().count()}; };
    if (client.rank() == client.size() - 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    std::array<std::int64_t, 2> times{now(), 0};
    expect_ok(client.barrier(), "the timed barrier");
    times[1] = now();
    const Tensor latest_arrival{times.data(), DType::int64, {1}};
    const Tensor earliest_leave{times.data() + 1, DType::int64, {1}};
    expect_ok(client.allreduce("barrier.arrived", latest_arrival, latest_arrival, {ReduceOp::max}), "arrivals");
    expect_ok(client.allreduce("barrier.left", earliest_leave, earliest_leave, {ReduceOp::min}), "leaves");
    RUEDA_RANK_CHECK(times[0] <= times[1]);
}

/// Unnamed operations of different kinds match by the order of the calls; more are pending than there are slots for
/// them (64).
void unnamed(Client& client) {
    constexpr int kOperations = 200;
    for (int round = 0; round < 2; ++round) {
        std::vector<Buffer> buffers;
        std::vector<PendingPointer> pending;
        for (int i = 0; i < kOperations; ++i) {
            buffers.emplace_back(client, DType::float32, std::vector<std::int64_t>{1 + i * 2}, i % 5 == 0);
            const Tensor& tensor = buffers.back().tensor();
            const int root = i % client.size();
            if (i % 3 != 1 || client.rank() == root) {
                fill_input(tensor, ReduceOp::sum, client.rank(), i);
            }
            pending.push_back(expect_value(i % 3 == 0   ? client.start_allreduce("", tensor, tensor, {ReduceOp::sum})
                                           : i % 3 == 1 ? client.start_broadcast("", tensor, root)
                                                        : client.start_allgather("", tensor),
                                           "an unnamed operation"));
        }
        for (int i = 0; i < kOperations; ++i) {
            const auto index = static_cast<std::size_t>(i);
            const std::string what = fmt::format("unnamed operation {}", i);
            expect_ok(pending[index]->wait(), what);
            const Tensor& tensor = buffers[index].tensor();
            if (i % 3 == 0) {
                check_allreduce(tensor, {ReduceOp::sum}, client.size(), i, what);
            } else if (i % 3 == 1) {
                check_copy(tensor, 0, tensor.elements(), i % client.size(), i, what);
            } else {
                for (int rank = 0; rank < client.size(); ++rank) {
                    check_copy(pending[index]->output(), static_cast<std::size_t>(rank) * tensor.elements(),
                               tensor.elements(), rank, i, what);
                }
            }
        }
        expect_ok(client.barrier(), "a barrier between unnamed operations");
    }
}

constexpr std::array kScenarios = {
    Scenario{"broadcast: every root and size", broadcasts},
    Scenario{"allgather: different first dimensions", allgathers},
    Scenario{"barrier", barriers},
    Scenario{"unnamed operations", unnamed},
};

}  // namespace

std::span<const Scenario> exchange_scenarios() { return kScenarios; }

}  // namespace rueda::tests
