// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests large outputs. Rueda writes outputs that are larger than the caches with stores that bypass the caches
// (ArenaPlan::stream_from). The tests in tests/collectives use such stores for small outputs, too.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"

namespace rueda::tests {
namespace {

std::size_t unsigned_of(std::int64_t value) { return static_cast<std::size_t>(value); }

/// This size is no multiple of a cache line, and no multiple of the number of ranks.
constexpr std::int64_t kElements = 13 * 1024 * 1024 + 7;

void broadcast_large(Client& client, Residency residency) {
    constexpr std::int64_t kBytes = 33 * 1024 * 1024 + 7;
    constexpr std::size_t kStride = 61;  // an odd stride reaches every position within a cache line
    const int root = client.size() - 1;
    const Buffer buffer(client, DType::int8, {kBytes}, is_resident(residency, client.rank(), 0));
    if (client.rank() == root) {
        fill_input(buffer.tensor(), ReduceOp::sum, root, 1);
    }
    expect_ok(client.broadcast("large", buffer.tensor(), root), "a large broadcast");
    for (std::size_t i = 0; i < unsigned_of(kBytes); i += kStride) {
        check_copy(buffer.tensor(), i, 1, root, 1, "a large broadcast", i);
    }
    buffer.check_margin("a large broadcast");
}

void allgather_large(Client& client, Residency residency) {
    constexpr std::int64_t kRows = kElements / 4;
    const Buffer mine(client, DType::uint8, {kRows}, is_resident(residency, client.rank(), 0));
    const Buffer all(client, DType::uint8, {kRows * client.size()}, is_resident(residency, client.rank(), 1));
    fill_input(mine.tensor(), ReduceOp::sum, client.rank(), 2);
    expect_ok(client.allgather("large.gathered", mine.tensor(), &all.tensor()).status(), "a large allgather");
    for (int rank = 0; rank < client.size(); ++rank) {
        check_copy(all.tensor(), unsigned_of(rank * kRows), unsigned_of(kRows), rank, 2, "a large allgather");
    }
    all.check_margin("a large allgather");
}

void alltoall_large(Client& client, Residency residency) {
    const std::int64_t part = kElements / 2 / client.size();
    const std::int64_t rows = part * client.size();
    const Buffer mine(client, DType::uint8, {rows}, is_resident(residency, client.rank(), 0));
    const Buffer out(client, DType::uint8, {rows}, is_resident(residency, client.rank(), 1));
    fill_input(mine.tensor(), ReduceOp::sum, client.rank(), 3);
    expect_ok(client.alltoall("large.exchanged", mine.tensor(), std::nullopt, &out.tensor()).status(),
              "a large alltoall");
    for (int from = 0; from < client.size(); ++from) {
        check_copy(out.tensor(), unsigned_of(from * part), unsigned_of(part), from, 3, "a large alltoall",
                   unsigned_of(client.rank() * part));
    }
    out.check_margin("a large alltoall");
}

void reducescatter_large(Client& client, Residency residency) {
    const std::int64_t share = kElements / 3 / 4 * 4;
    const std::int64_t rows = share * client.size() / 4;
    const Buffer mine(client, DType::int32, {rows}, is_resident(residency, client.rank(), 0));
    const Buffer out(client, DType::int32, {share / 4}, is_resident(residency, client.rank(), 1));
    fill_input(mine.tensor(), ReduceOp::sum, client.rank(), 4);
    expect_ok(client.reducescatter("large.scattered", mine.tensor(), out.tensor(), {ReduceOp::sum}),
              "a large reducescatter");
    check_reduction(out.tensor(), unsigned_of(client.rank() * (share / 4)), {ReduceOp::sum}, client.size(), 4,
                    "a large reducescatter");
    out.check_margin("a large reducescatter");
}

TEST_CASE("large outputs", "[threads]") {
    const int size = GENERATE(1, 2, 3);
    const RanksResult result = run_clients(size, test_config(), [](RankContext&, RuntimeClient& client) {
        for (const Residency residency : kResidencies) {
            broadcast_large(client, residency);
            allgather_large(client, residency);
            alltoall_large(client, residency);
            reducescatter_large(client, residency);
        }
    });
    INFO(size << " ranks\n" << result.text());
    CHECK(result.passed());
}

}  // namespace
}  // namespace rueda::tests
