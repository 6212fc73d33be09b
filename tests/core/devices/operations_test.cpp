// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests all operations on tensors in device memory. The expected values are computed from the ranks' numbers.
#include <array>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "core/operations/requests.hpp"
#include "tests/core/devices/device_rank.hpp"
#include "tests/support/check_passed.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

using core::make_allgather;
using core::make_alltoall;
using core::make_broadcast;
using core::make_gather;
using core::make_reduce;
using core::make_reducescatter;
using core::make_scatter;
using core::ProcessSet;
using core::Request;

/// The input of a rank: `count` different values.
std::vector<float> input_of(int rank, std::size_t count) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) {
        values[i] = static_cast<float>(rank + 1) * 100.0F + static_cast<float>(i % 97);
    }
    return values;
}

std::vector<float> sum_of_inputs(int ranks, std::size_t count) {
    std::vector<float> sum(count, 0.0F);
    for (int rank = 0; rank < ranks; ++rank) {
        const std::vector<float> input = input_of(rank, count);
        std::transform(sum.begin(), sum.end(), input.begin(), sum.begin(), std::plus<>());
    }
    return sum;
}

void check_equal(const std::vector<float>& found, const std::vector<float>& expected) {
    RUEDA_RANK_CHECK(found == expected);
}

void test_reductions(DeviceRank& rank, std::size_t count) {
    const auto n = static_cast<std::int64_t>(count);
    const std::vector<float> mine = input_of(rank.rank(), count);
    float* const data = rank.put(mine);
    rank.allreduce("sum", data, n);
    check_equal(rank.get(data, count), sum_of_inputs(rank.size(), count));
    rank.write(data, mine);
    rank.allreduce("max", data, n, ReduceOp::max);
    check_equal(rank.get(data, count), input_of(rank.size() - 1, count));
    rank.write(data, mine);
    rank.allreduce("min", data, n, ReduceOp::min);
    check_equal(rank.get(data, count), input_of(0, count));
    const DeviceTensor in(rank.put(mine), n);
    float* const result = rank.garbage(count);
    const DeviceTensor out(result, n);
    const int root = rank.size() - 1;
    rank.run("reduce", rank.options(), [&](ProcessSet& set, const rueda_options& o, Request& request) {
        return make_reduce(in.c(), &out.c(), root, set.identity().ranks, set.set_rank(), o, request);
    });
    if (rank.rank() == root) {
        check_equal(rank.get(result, count), sum_of_inputs(rank.size(), count));
    }
}

void test_broadcast(DeviceRank& rank, std::size_t count) {
    float* const data = rank.put(input_of(rank.rank(), count));
    const DeviceTensor tensor(data, static_cast<std::int64_t>(count));
    const int root = rank.size() / 2;
    rank.run("broadcast", rank.options(), [&](ProcessSet& set, const rueda_options& o, Request& request) {
        return make_broadcast(tensor.c(), tensor.c(), root, set.identity().ranks, set.set_rank(), o, request);
    });
    check_equal(rank.get(data, count), input_of(root, count));
}

/// Rank r gives r + 1 rows.
void test_allgather_and_gather(DeviceRank& rank) {
    const std::size_t rows = static_cast<std::size_t>(rank.rank()) + 1;
    std::vector<float> expected;
    for (int other = 0; other < rank.size(); ++other) {
        const std::vector<float> input = input_of(other, static_cast<std::size_t>(other) + 1);
        expected.insert(expected.end(), input.begin(), input.end());
    }
    const DeviceTensor in(rank.put(input_of(rank.rank(), rows)), static_cast<std::int64_t>(rows));
    float* const all = rank.garbage(expected.size());
    const DeviceTensor out(all, static_cast<std::int64_t>(expected.size()));
    rank.run("allgather", rank.options(), [&](ProcessSet& /*set*/, const rueda_options& o, Request& request) {
        return make_allgather(in.c(), &out.c(), o, request);
    });
    check_equal(rank.get(all, expected.size()), expected);
    float* const gathered = rank.garbage(expected.size());
    const DeviceTensor on_root(gathered, static_cast<std::int64_t>(expected.size()));
    rank.run("gather", rank.options(), [&](ProcessSet& set, const rueda_options& o, Request& request) {
        return make_gather(in.c(), set.set_rank() == 0 ? &on_root.c() : nullptr, 0, set.identity().ranks,
                           set.set_rank(), o, request);
    });
    if (rank.rank() == 0) {
        check_equal(rank.get(gathered, expected.size()), expected);
    }
}

/// Rank r sends r + s + 1 rows to rank s. Their elements have the value 1000 · r + s.
void test_alltoall(DeviceRank& rank) {
    std::vector<float> input;
    std::vector<std::int64_t> splits;
    std::vector<float> expected;
    for (int other = 0; other < rank.size(); ++other) {
        const auto rows = static_cast<std::size_t>(rank.rank() + other + 1);
        splits.push_back(static_cast<std::int64_t>(rows));
        input.insert(input.end(), rows, static_cast<float>(1000 * rank.rank() + other));
        expected.insert(expected.end(), rows, static_cast<float>(1000 * other + rank.rank()));
    }
    const DeviceTensor in(rank.put(input), static_cast<std::int64_t>(input.size()));
    float* const received = rank.garbage(expected.size());
    const DeviceTensor out(received, static_cast<std::int64_t>(expected.size()));
    rank.run("alltoall", rank.options(), [&](ProcessSet& set, const rueda_options& o, Request& request) {
        return make_alltoall(in.c(), splits.data(), splits.size(), &out.c(), set.set_size(), o, request);
    });
    check_equal(rank.get(received, expected.size()), expected);
}

/// With more than two ranks, the rows cannot be divided equally: two rows remain.
void test_reducescatter_and_scatter(DeviceRank& rank) {
    const auto ranks = static_cast<std::size_t>(rank.size());
    const std::size_t rows = 3 * ranks + (ranks > 2 ? 2U : 0U);
    const std::vector<float> sum = sum_of_inputs(rank.size(), rows);
    std::size_t begin = 0;
    std::size_t share = 0;
    for (int other = 0; other <= rank.rank(); ++other) {
        begin += share;
        share = rows / ranks + (static_cast<std::size_t>(other) < rows % ranks ? 1U : 0U);
    }
    const DeviceTensor in(rank.put(input_of(rank.rank(), rows)), static_cast<std::int64_t>(rows));
    float* const mine = rank.garbage(share);
    const DeviceTensor out(mine, static_cast<std::int64_t>(share));
    rank.run("reducescatter", rank.options(), [&](ProcessSet& set, const rueda_options& o, Request& request) {
        return make_reducescatter(in.c(), &out.c(), set.set_rank(), set.set_size(), o, request);
    });
    const auto first = sum.begin() + static_cast<std::ptrdiff_t>(begin);
    check_equal(rank.get(mine, share), {first, first + static_cast<std::ptrdiff_t>(share)});

    std::vector<std::int64_t> splits(ranks);
    std::iota(splits.begin(), splits.end(), 1);
    const auto all = static_cast<std::size_t>(std::accumulate(splits.begin(), splits.end(), std::int64_t{0}));
    const DeviceTensor source(rank.put(input_of(0, all)), static_cast<std::int64_t>(all));
    const auto own = static_cast<std::size_t>(rank.rank()) + 1;
    float* const part = rank.garbage(own);
    const DeviceTensor scattered(part, static_cast<std::int64_t>(own));
    rank.run("scatter", rank.options(), [&](ProcessSet& set, const rueda_options& o, Request& request) {
        return make_scatter(source.c(), splits.data(), splits.size(), &scattered.c(), 0, set.identity().ranks,
                            set.set_rank(), o, request);
    });
    const std::vector<float> whole = input_of(0, all);
    const auto from = whole.begin() + rank.rank() * (rank.rank() + 1) / 2;
    check_equal(rank.get(part, own), {from, from + static_cast<std::ptrdiff_t>(own)});
}

void test_all(DeviceRank& rank) {
    for (const std::size_t count : {1U, 1000U, 70'000U}) {
        test_reductions(rank, count);
        test_broadcast(rank, count);
    }
    test_allgather_and_gather(rank);
    test_alltoall(rank);
    test_reducescatter_and_scatter(rank);
}

TEST_CASE("the first call of a process set gets NCCL's identifier, so the thread that drives progress need not",
          "[operations]") {
    run_on_devices(2, [](DeviceRank& rank) {
        float* const data = rank.put(std::array{1.0F});
        const std::size_t before = gpu::calls("ncclGetUniqueId");
        rank.meet("counted");
        core::Completion completion;
        if (rank.rank() == 0) {
            rank.start_allreduce("x", data, 1, completion).throw_if_failed();
            // Rank 1 has not announced the operation yet, so the thread that drives progress has not begun its batch.
            RUEDA_RANK_CHECK(gpu::calls("ncclGetUniqueId") == before + 1);
        }
        rank.meet("started");
        if (rank.rank() == 1) {
            rank.start_allreduce("x", data, 1, completion).throw_if_failed();
        }
        rank.runtime().wait(completion, 20).throw_if_failed();
        rank.allreduce("y", data, 1);
        RUEDA_RANK_CHECK(rank.get(data, 1).front() == 4.0F);
        rank.meet("done");
        RUEDA_RANK_CHECK(gpu::calls("ncclGetUniqueId") == before + 1);
    });
}

TEST_CASE("every operation works on tensors in device memory", "[operations]") {
    const int ranks = GENERATE(1, 2, 3, 4);
    CAPTURE(ranks);
    run_on_devices(ranks, test_all);
}

TEST_CASE("every operation works for ranks that share a device", "[operations]") {
    const int ranks = GENERATE(2, 3, 4);
    CAPTURE(ranks);
    run_on_one_device(ranks, test_all);
}

TEST_CASE("a tensor of several pieces is reduced through the host's memory", "[operations]") {
    run_on_one_device(2, [](DeviceRank& rank) {
        constexpr std::size_t kCount = 5'000'000;  // 20 MB, in pieces of 4 MiB
        float* const data = rank.put(input_of(rank.rank(), kCount));
        rank.allreduce("large", data, kCount);
        check_equal(rank.get(data, kCount), sum_of_inputs(2, kCount));
    });
}

/// A process set of which this rank is a member.
struct OwnSet {
    core::ProcessSet* set = nullptr;
    std::vector<float> sum{};  ///< the sum of the inputs of the set's members
};

/// Returns three process sets: all ranks, ranks 0 and 1, and ranks 1 and 2. Leaves out sets of which this rank is not a
/// member.
std::vector<OwnSet> sets_of(DeviceRank& rank, std::size_t count) {
    std::vector<OwnSet> sets{{&rank.runtime().world(), sum_of_inputs(3, count)}};
    for (const int first : {0, 1}) {
        const std::array<int, 2> members{first, first + 1};
        const Result<std::int32_t> added = rank.runtime().process_sets().add(members);
        added.status().throw_if_failed();
        if (rank.rank() != first && rank.rank() != first + 1) {
            continue;
        }
        std::vector<float> sum = input_of(first, count);
        const std::vector<float> other = input_of(first + 1, count);
        std::transform(sum.begin(), sum.end(), other.begin(), sum.begin(), std::plus<>());
        sets.push_back({rank.runtime().process_sets().find(added.value()).value().get(), sum});
    }
    return sets;
}

/// Each rank runs the batches of its process sets in its own order.
void run_sets_in_any_order(DeviceRank& rank) {
    constexpr std::int64_t kCount = 1000;
    const std::vector<OwnSet> sets = sets_of(rank, kCount);
    const std::vector<float> mine = input_of(rank.rank(), kCount);
    std::mt19937 random(static_cast<unsigned>(rank.rank()));
    for (int round = 0; round < 20; ++round) {
        std::vector<std::size_t> order(sets.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::shuffle(order.begin(), order.end(), random);
        std::array<core::Completion, 3> completions;
        std::array<float*, 3> data{};
        for (const std::size_t i : order) {
            data[i] = rank.put(mine);
            const DeviceTensor tensor(data[i], kCount);
            rank.start_in(*sets[i].set, "x", rank.options(), completions[i],
                          [&](ProcessSet& /*set*/, const rueda_options& o, Request& request) {
                              return core::make_allreduce(tensor.c(), tensor.c(), o, request);
                          })
                .throw_if_failed();
        }
        for (const std::size_t i : order) {
            rank.wait_on_stream(completions[i]).throw_if_failed();
            check_equal(rank.get(data[i], kCount), sets[i].sum);
            rank.runtime().wait(completions[i], 20).throw_if_failed();
        }
    }
}

TEST_CASE("several process sets use GPUs, whatever the order on each rank is", "[operations]") {
    SECTION("with a device for each rank") { run_on_devices(3, run_sets_in_any_order); }
    SECTION("with one device") { run_on_one_device(3, run_sets_in_any_order); }
}

TEST_CASE("tensors of the CPU and of a device take turns in one process set", "[operations]") {
    run_on_devices(2, [](DeviceRank& rank) {
        float* const data = rank.put(std::array{1.0F, 2.0F});
        for (int step = 0; step < 20; ++step) {
            std::array<float, 3> on_cpu{1.0F, 2.0F, static_cast<float>(rank.rank())};
            rank.allreduce("on a device", data, 2);
            RUEDA_RANK_CHECK(rank.allreduce_on_cpu("on the CPU", on_cpu).is_ok());
            RUEDA_RANK_CHECK((on_cpu == std::array{2.0F, 4.0F, 1.0F}));
        }
        check_equal(rank.get(data, 2), {1048576.0F, 2097152.0F});
    });
}

TEST_CASE("many tensors at once share batches, and each gets its own sum", "[operations]") {
    run_on_devices(2, [](DeviceRank& rank) {
        constexpr std::size_t kTensors = 40;
        std::vector<float*> data;
        std::array<core::Completion, kTensors> completions;
        for (std::size_t i = 0; i < kTensors; ++i) {
            data.push_back(rank.put(input_of(rank.rank(), i)));
        }
        for (std::size_t i = 0; i < kTensors; ++i) {
            // the two ranks start the operations in opposite orders
            const std::size_t which = rank.rank() == 0 ? i : kTensors - 1 - i;
            rank.start_allreduce("tensor " + std::to_string(which), data[which], static_cast<std::int64_t>(which),
                                 completions[which])
                .throw_if_failed();
        }
        for (std::size_t i = 0; i < kTensors; ++i) {
            rank.wait_on_stream(completions[i]).throw_if_failed();
            check_equal(rank.get(data[i], i), sum_of_inputs(2, i));
            rank.runtime().wait(completions[i], 20).throw_if_failed();
        }
    });
}

}  // namespace
}  // namespace rueda::tests
