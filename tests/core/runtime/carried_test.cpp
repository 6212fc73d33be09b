// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests small allreduces between hosts whose data travels with the negotiation. The first call of a name never travels
// in this way. All later calls must give the same bits as the first one, whether they travel in this way or not.
#include "core/negotiation/carried.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <set>

#include "core/negotiation/layout.hpp"
#include "core/setup/arena_setup.hpp"
#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/work.hpp"
#include "tests/ops/buffers.hpp"
#include "tests/support/check_passed.hpp"
#include "tests/support/sanitized.hpp"

namespace rueda::tests {
namespace {

/// Allreduces of all types and reductions. Their sizes are up to and beyond the largest size that travels with the
/// negotiation.
std::vector<Work> small_allreduces() {
    std::vector<Work> works;
    for (const DType dtype : ops::test::kDTypes) {
        std::vector<ReduceOp> reductions = ops::test::ops_of(dtype);
        for (const ReduceOp op : reductions) {
            Work work;
            work.number = static_cast<int>(works.size());
            work.dtype = dtype;
            const bool is_scaled = dtype != DType::boolean && work.number % 2 == 0;
            work.reduce = {op, is_scaled ? 0.75 : 1.0, is_scaled ? 1.0 / 3 : 1.0};
            const std::int64_t most = static_cast<std::int64_t>(core::kMostCarriedBytes / size_of(dtype));
            const std::int64_t rows[] = {most, 5, most / 3, most + 1};
            work.rows = rows[works.size() % std::size(rows)];
            works.push_back(work);
        }
    }
    return works;
}

std::size_t bytes_of(const Work& work) { return static_cast<std::size_t>(work.rows) * size_of(work.dtype); }

/// Whether a later call of the work travels with the negotiation, in a job that allows this.
bool may_travel(const Work& work) {
    return bytes_of(work) <= core::kMostCarriedBytes && work.reduce.op != ReduceOp::adasum &&
           (work.reduce.op != ReduceOp::average || !ops::test::is_integer(work.dtype));
}

/// Whether an attachment of this host contains `result`. Only the result of an operation that travelled with the
/// negotiation lies there. Call this only after a blocking call that all ranks made.
bool is_attached(RuntimeClient& client, const base::Config& config, int members, const Bytes& result) {
    const auto sizes =
        expect_value(core::plan_arena(config, static_cast<std::uint32_t>(members), {}, config.resident_limit_bytes,
                                      static_cast<std::uint32_t>(client.size())),
                     "the sizes of the arena");
    const core::NegotiationMemory<base::StdAtomics> memory(client.runtime().arena()->negotiation(), sizes.extent);
    for (std::uint32_t number = 0; number < sizes.extent.attachments; ++number) {
        if (std::memcmp(memory.attachment(number), result.data(), result.size()) == 0) {
            return true;
        }
    }
    return false;
}

void check_calls(RuntimeClient& client, const Layout& layout, const base::Config& config) {
    const std::set<char> hosts(layout.begin(), layout.end());
    bool hosts_allow = hosts.size() <= 9;  // the root of the tree has up to eight children
    for (const char host : hosts) {
        hosts_allow = hosts_allow && std::count(layout.begin(), layout.end(), host) <= core::kInlineMembers;
    }
    const auto members =
        static_cast<int>(std::count(layout.begin(), layout.end(), layout[static_cast<std::size_t>(client.rank())]));
    for (const Work& work : small_allreduces()) {
        Bytes first;
        for (int call = 0; call < 5; ++call) {
            const RunningWork::Circumstances circumstances{.name = work.name(),
                                                           .resident = (call + client.rank()) % 2 == 0,
                                                           .in_place = (call / 2 + client.rank()) % 2 == 0,
                                                           .blocks = call < 3};
            const Bytes result = RunningWork(client, work, circumstances).finish();
            if (call == 0) {
                first = result;
                // The bounds of check_values() are meant for factors of 1 and few ranks.
                if (work.reduce.prescale == 1.0 && client.size() <= 5) {
                    check_values(work, {layout}, client.rank(), result);
                }
            }
            RUEDA_RANK_CHECK(result == first);
            // A short result might also be in an attachment by chance.
            if (!kSanitized && config.verify == 0 && bytes_of(work) > 64 && work.dtype != DType::boolean) {
                const bool travelled = is_attached(client, config, members, result);
                RUEDA_RANK_EQUAL(travelled, call > 0 && hosts_allow && may_travel(work));
            }
        }
    }
}

TEST_CASE("an allreduce that travels with the negotiation gives the bits of the first call", "[threads]") {
    const Layout layout = GENERATE("ab", "aab", "aba", "abc", "aabbcc", "abcde", "abcdefg", "abcdefghi", "abcdefghij",
                                   "aaaaaaaab", "aaaaaaaaab");
    INFO(layout);
    const base::Config config = test_config();
    check_passed(run_clients(
        static_cast<int>(layout.size()), config,
        [&](RankContext&, RuntimeClient& client) { check_calls(client, layout, config); },
        {.deadline = std::chrono::seconds(200)}, layout));
}

TEST_CASE("an allreduce that travels with the negotiation is verified like every other one", "[threads]") {
    const Layout layout = GENERATE("ab", "aab");
    base::Config config = test_config();
    config.verify = GENERATE(1U, 3U);
    check_passed(run_clients(
        static_cast<int>(layout.size()), config,
        [&](RankContext&, RuntimeClient& client) { check_calls(client, layout, config); },
        {.deadline = std::chrono::seconds(200)}, layout));
}

/// Submits more operations at once than a host has attachments, so leaders wait until slow ranks have read results. The
/// ranks do not wake up by themselves.
void submit_many(RuntimeClient& client) {
    constexpr std::size_t kTensors = 150;
    std::mt19937 random(static_cast<std::uint32_t>(client.rank()));
    std::vector<std::array<float, 8>> values(kTensors);
    for (int round = 0; round < 6; ++round) {
        std::vector<PendingPointer> pending(kTensors);
        std::vector<std::size_t> order(kTensors);
        for (std::size_t i = 0; i < kTensors; ++i) {
            order[i] = i;
        }
        if (round % 2 == 1) {
            std::shuffle(order.begin(), order.end(), random);
        }
        for (const std::size_t i : order) {
            values[i].fill(static_cast<float>(static_cast<int>(i) + round + client.rank()));
            const Tensor tensor{values[i].data(), DType::float32, {8}};
            pending[i] = expect_value(client.start_allreduce("t" + std::to_string(i), tensor, tensor, {}), "a start");
        }
        for (std::size_t i = 0; i < kTensors; ++i) {
            expect_ok(pending[i]->wait(), "a tensor");
            const int size = client.size();
            const auto expected = static_cast<float>(size * (static_cast<int>(i) + round) + size * (size - 1) / 2);
            RUEDA_RANK_CHECK(std::all_of(values[i].begin(), values[i].end(), [&](float v) { return v == expected; }));
        }
    }
}

TEST_CASE("more operations than attachments travel with the negotiation", "[threads]") {
    const Layout layout = GENERATE("ab", "aab", "aabbc");
    check_passed(run_clients(
        static_cast<int>(layout.size()), patient_config(),
        [](RankContext&, RuntimeClient& client) { submit_many(client); }, {}, layout));
}

/// If one rank changes a tensor's metadata, the operation fails on all ranks, and later calls are right.
void change_metadata(RuntimeClient& client) {
    std::array<float, 8> values{};
    const auto call = [&](std::int64_t count) {
        values.fill(static_cast<float>(client.rank() + 1));
        const Tensor tensor{values.data(), DType::float32, {count}};
        return client.allreduce("x", tensor, tensor, {});
    };
    const int size = client.size();
    const auto check_sum = [&](std::int64_t count) {
        for (int i = 0; i < 3; ++i) {
            expect_ok(call(count), "the call");
            RUEDA_RANK_EQUAL(values[0], static_cast<float>(size * (size + 1) / 2));
            RUEDA_RANK_EQUAL(values[static_cast<std::size_t>(count) - 1], values[0]);
        }
    };
    for (int changing = 0; changing < size; ++changing) {
        check_sum(4);
        RUEDA_RANK_CHECK(call(client.rank() == changing ? 5 : 4).code() == ErrorCode::mismatch);
        check_sum(4);
        check_sum(6);
    }
}

TEST_CASE("a rank that changes the metadata of a tensor that travels with the negotiation is found", "[threads]") {
    const Layout layout = GENERATE("ab", "aab", "abb", "abc");
    INFO(layout);
    check_passed(run_clients(
        static_cast<int>(layout.size()), test_config(),
        [](RankContext&, RuntimeClient& client) { change_metadata(client); }, {}, layout));
}

}  // namespace
}  // namespace rueda::tests
