// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "tests/collectives/hierarchical/hosts_of_threads.hpp"
#include "tests/ops/buffers.hpp"
#include "tests/support/ranks/thread_transport.hpp"
#include "tests/support/sanitized.hpp"

namespace rueda::tests {
namespace {

using collectives::Operation;
using collectives::StepResult;
using HostOf = std::vector<std::uint32_t>;

// A lane is a group with one rank of each host, which exchanges one share of a tensor between the hosts. The smallest
// host has one rank for each lane.
const std::vector<HostOf> kLayouts = {
    {0, 1},                                         // one rank on each host
    {0, 0, 1, 1},                                   // two ranks on each host
    {0, 1, 1, 2, 2, 2},                             // hosts of different size; one lane
    {0, 0, 0, 1, 1, 2, 2, 2},                       // hosts of different size; two lanes
    {0, 1, 2, 3, 4},                                // five hosts with one rank each
    {0, 1, 0, 1},                                   // two hosts whose ranks alternate
    {0, 1, 2, 1, 0, 2, 2},                          // three hosts of different size whose ranks are mixed
    {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 6},  // seven hosts
    {0, 0, 0},                                      // a single host
};

/// Tiny chunks make small tensors take all code paths of large tensors.
std::vector<HostsShape> shapes_of(const HostOf& layout) {
    const HostsShape tiny{layout, 256, 2, Residency::none, {512, 128}, 3};
    const HostsShape odd{layout, 320, 3, Residency::mixed, {512, 192}, 0};
    const HostsShape resident{layout, 4096, 4, Residency::all, {1024, 0}, 2};
    const HostsShape usual{layout, 65536, 4, Residency::mixed, {2048, 0}, 0};
    const HostsShape tiny_mixed{layout, 256, 2, Residency::mixed, {64, 256}, 2};
    return {tiny, odd, resident, usual, tiny_mixed};
}

/// The shapes for tests of all dtypes and reductions. With a sanitizer, only two shapes are used, to save time. Other
/// tests run all code paths with all shapes.
std::vector<HostsShape> shapes_for_dtypes(const HostOf& layout) {
    std::vector<HostsShape> shapes = shapes_of(layout);
    if (kSanitized) {
        shapes.erase(shapes.begin() + 2, shapes.end());
    }
    return shapes;
}

/// Returns the number of elements of a tensor of 700 bytes or more. In some shapes, such a tensor needs several chunks.
std::uint64_t several_chunks(DType dtype) { return size_of(dtype) == 1 ? 700 : 350; }

template <class T>
T draw(std::mt19937& random, T end) {
    return static_cast<T>(random() % static_cast<std::uint32_t>(end));
}

TensorPlan any_tensor(std::mt19937& random, std::uint64_t most) {
    TensorPlan tensor;
    tensor.dtype = ops::test::kDTypes[random() % std::size(ops::test::kDTypes)];
    const std::vector<ReduceOp> ops = ops::test::ops_of(tensor.dtype);
    tensor.op = ops[random() % ops.size()];
    tensor.count = draw(random, most + 1);
    const bool scaled = tensor.dtype != DType::boolean;
    tensor.prescale = scaled && random() % 3 == 0 ? 0.75 : 1.0;
    tensor.postscale = scaled && random() % 3 == 0 ? 1.0 / 3 : 1.0;
    return tensor;
}

/// Draws a float32 or float64 tensor that is compressed to float16 or bfloat16.
TensorPlan any_compressed(std::mt19937& random, std::uint64_t most) {
    TensorPlan tensor = any_tensor(random, most);
    tensor.dtype = random() % 2 == 0 ? DType::float32 : DType::float64;
    tensor.compression = random() % 2 == 0 ? Compression::fp16 : Compression::bf16;
    return tensor;
}

/// Makes every tensor of the batch an adasum, because a batch must not mix adasums with other reductions.
void make_adasums(BatchPlan& plan) {
    for (TensorPlan& tensor : plan.tensors) {
        tensor.op = ReduceOp::adasum;
        tensor.compression = Compression::none;
        tensor.dtype = ops::has_adasum(tensor.dtype) ? tensor.dtype : DType::float32;
    }
}

BatchPlan any_allreduce(std::mt19937& random) {
    BatchPlan plan;
    for (auto tensors = 1 + random() % 5; tensors > 0; --tensors) {
        const std::uint64_t most = random() % 3 == 0 ? 2500 : 60;
        plan.tensors.push_back(random() % 4 == 0 ? any_compressed(random, most) : any_tensor(random, most));
    }
    if (random() % 4 == 0) {
        make_adasums(plan);
    }
    return plan;
}

BatchPlan any_of(Operation operation, std::uint32_t size, std::mt19937& random) {
    if (operation == Operation::allreduce) {
        return any_allreduce(random);
    }
    BatchPlan plan{operation, {any_tensor(random, operation == Operation::broadcast ? 3000 : 9)}, 0, {}, {}, {}};
    plan.root = draw(random, size);
    if (operation == Operation::allgather) {
        for (std::uint32_t rank = 0; rank < size; ++rank) {
            plan.rows.push_back(random() % 3 == 0 ? 0 : draw(random, 300));
        }
    } else if (operation == Operation::reducescatter) {
        plan.rows.assign(size, draw(random, 150));
    } else if (operation == Operation::alltoall) {
        for (std::uint32_t pair = 0; pair < size * size; ++pair) {
            plan.splits.push_back(random() % 3 == 0 ? 0 : draw(random, 60));
        }
    }
    if (collectives::has_variable_rows(operation) && operation != Operation::reducescatter && random() % 3 == 0) {
        for (std::uint32_t rank = 0; rank < size; ++rank) {
            plan.keeps_nothing.push_back(random() % 2 == 0);
        }
    }
    return plan;
}

void check(const HostsShape& shape, const std::vector<BatchPlan>& batches, std::uint32_t seed) {
    INFO(shape.text() << ", seed " << seed);
    std::mt19937 random(seed);
    HostsOfThreads hosts(shape, batches, seed);
    REQUIRE(hosts.run(random));
    CHECK(hosts.check() == "");
    for (std::uint32_t rank = 0; rank < hosts.size(); ++rank) {
        CHECK(hosts.transport(rank).under_way() == 0);
    }
}

void check_operation(Operation operation) {
    std::uint32_t seed = 1;
    for (const HostOf& layout : kLayouts) {
        for (const HostsShape& shape : shapes_of(layout)) {
            std::mt19937 random(++seed);
            std::vector<BatchPlan> batches;
            for (int i = 0; i < 6; ++i) {
                batches.push_back(any_of(operation, static_cast<std::uint32_t>(layout.size()), random));
            }
            check(shape, batches, seed);
        }
    }
}

TEST_CASE("an allreduce over several hosts", "[unit]") { check_operation(Operation::allreduce); }

TEST_CASE("an allreduce by adasum over several hosts, alone and between other batches", "[unit]") {
    std::uint32_t seed = 100;
    for (const HostOf& layout : kLayouts) {
        for (const HostsShape& shape : shapes_of(layout)) {
            std::mt19937 random(++seed);
            std::vector<BatchPlan> batches;
            for (int i = 0; i < 6; ++i) {
                batches.push_back(any_allreduce(random));
                if (i % 2 == 0 || random() % 2 == 0) {
                    make_adasums(batches.back());
                }
            }
            check(shape, batches, seed);
        }
    }
}

TEST_CASE("a broadcast over several hosts", "[unit]") { check_operation(Operation::broadcast); }

TEST_CASE("an allgather over several hosts", "[unit]") { check_operation(Operation::allgather); }

/// Lets some ranks join, often all ranks of a host, but never all ranks of the job. A random number of the joined ranks
/// is left out of the divisor of averages.
void let_some_join(BatchPlan& plan, const HostOf& host_of, std::mt19937& random) {
    const auto size = static_cast<std::uint32_t>(host_of.size());
    const std::uint32_t stays = draw(random, size);
    const std::uint32_t gone_host = draw(random, 2 * size);
    std::uint32_t joined = 0;
    plan.joined.assign(size, false);
    for (std::uint32_t rank = 0; rank < size; ++rank) {
        plan.joined[rank] = rank != stays && (random() % 2 == 0 || host_of[rank] == gone_host % (host_of.back() + 1));
        joined += plan.joined[rank] ? 1U : 0U;
    }
    plan.uncounted = draw(random, joined + 1);
}

TEST_CASE("an allreduce over several hosts without ranks that have joined", "[unit]") {
    std::uint32_t seed = 500;
    for (const HostOf& layout : kLayouts) {
        for (const HostsShape& shape : shapes_of(layout)) {
            std::mt19937 random(++seed);
            std::vector<BatchPlan> batches;
            for (int i = 0; i < 8; ++i) {
                batches.push_back(any_allreduce(random));
                if (i % 4 != 3) {
                    let_some_join(batches.back(), layout, random);
                }
            }
            check(shape, batches, seed);
        }
    }
}

TEST_CASE("every dtype and every reduction over hosts of which all but one have joined", "[unit]") {
    for (const HostOf& layout : kLayouts) {
        BatchPlan plan;
        for (const DType dtype : ops::test::kDTypes) {
            for (const ReduceOp op : ops::test::ops_of(dtype)) {
                const bool scaled = dtype != DType::boolean;
                plan.tensors.push_back({dtype, op, 37, 1.0, 1.0});
                plan.tensors.push_back({dtype, op, several_chunks(dtype), scaled ? 0.5 : 1.0, scaled ? 3.0 : 1.0});
            }
        }
        for (const std::uint32_t stays : {0U, static_cast<std::uint32_t>(layout.size()) - 1}) {
            plan.joined.assign(layout.size(), true);
            plan.joined[stays] = false;
            plan.uncounted = static_cast<std::uint32_t>(layout.size()) / 2;
            for (const HostsShape& shape : shapes_for_dtypes(layout)) {
                check(shape, {plan}, 78);
            }
        }
    }
}

TEST_CASE("an alltoall over several hosts", "[unit]") { check_operation(Operation::alltoall); }

TEST_CASE("a reducescatter over several hosts", "[unit]") { check_operation(Operation::reducescatter); }

TEST_CASE("every dtype and every reduction over several hosts", "[unit]") {
    for (const HostOf& layout : kLayouts) {
        BatchPlan plan;
        for (const DType dtype : ops::test::kDTypes) {
            const bool scaled = dtype != DType::boolean;
            for (const ReduceOp op : ops::test::ops_of(dtype)) {
                plan.tensors.push_back({dtype, op, 37, 1.0, 1.0});
                plan.tensors.push_back({dtype, op, several_chunks(dtype), scaled ? 0.5 : 1.0, scaled ? 3.0 : 1.0});
            }
        }
        for (const HostsShape& shape : shapes_for_dtypes(layout)) {
            check(shape, {plan}, 77);
        }
    }
}

TEST_CASE("operations of several hosts follow each other through the same cells", "[unit]") {
    constexpr Operation kOperations[] = {Operation::allreduce, Operation::broadcast, Operation::allgather,
                                         Operation::alltoall, Operation::reducescatter};
    std::uint32_t seed = 1000;
    for (const HostOf& layout : kLayouts) {
        for (const HostsShape& shape : shapes_of(layout)) {
            std::mt19937 random(++seed);
            std::vector<BatchPlan> batches;
            for (int i = 0; i < 15; ++i) {
                batches.push_back(any_of(kOperations[random() % std::size(kOperations)],
                                         static_cast<std::uint32_t>(layout.size()), random));
            }
            check(shape, batches, seed);
        }
    }
}

TEST_CASE("the smallest cells over several hosts", "[unit]") {
    constexpr Operation kOperations[] = {Operation::allreduce, Operation::allgather, Operation::alltoall};
    const HostOf layout{0, 0, 0, 0, 1, 1, 1, 1};
    // A cell has space for one element of each rank.
    const HostsShape shape{layout, 256, 2, Residency::none, {512, 64}, 1};
    std::mt19937 random(3);
    std::vector<BatchPlan> batches;
    for (const DType dtype : ops::test::kDTypes) {
        const ReduceOp op = dtype == DType::boolean ? ReduceOp::max : ReduceOp::average;
        batches.push_back({Operation::allreduce, {{dtype, op, 333, 1.0, 1.0}}, 0, {}, {}, {}});
        batches.push_back(any_of(kOperations[random() % 3], 8, random));
    }
    check(shape, batches, 3);
}

TEST_CASE("chunks of the usual size over several hosts", "[unit]") {
    for (const HostOf& layout : {HostOf{0, 1}, HostOf{0, 0, 1, 1}, HostOf{0, 1, 1, 2}}) {
        const HostsShape shape{layout, 65536, 4, Residency::none, {65536, 0}, 1};
        BatchPlan plan;
        plan.tensors = {{DType::float32, ReduceOp::average, 700'001, 1.0, 1.0},
                        {DType::float32, ReduceOp::sum, 3, 1.0, 1.0},
                        {DType::bfloat16, ReduceOp::sum, 16'384, 1.0, 1.0},
                        {DType::float32, ReduceOp::sum, 16'384, 1.0, 1.0},
                        {DType::float32, ReduceOp::sum, 16'385, 1.0, 1.0}};
        BatchPlan broadcast{Operation::broadcast, {{DType::uint8, ReduceOp::sum, 1'000'003, 1.0, 1.0}}, 1, {}, {}, {}};
        check(shape, {plan, broadcast}, 5);
    }
}

/// Returns the shape of hosts with few and small cells, and with all tensors in private memory.
HostsShape few(HostOf host_of) { return {std::move(host_of), 256, 2, Residency::none, {}, 0}; }

BatchPlan one_tensor(const TensorPlan& tensor) { return {Operation::allreduce, {tensor}, 0, {}, {}, {}}; }

/// Calls step() until the task is done or cannot make progress. Returns step()'s last result.
StepResult step_while_possible(HostsOfThreads& hosts, std::uint32_t rank) {
    StepResult result = StepResult::advanced;
    while (result == StepResult::advanced) {
        result = hosts.step(rank);
    }
    return result;
}

TEST_CASE("a rank that waits for another host polls, and a rank that waits for its own host sleeps", "[unit]") {
    HostsOfThreads hosts(few({0, 1, 1}), {one_tensor({DType::float32, ReduceOp::sum, 9})}, 1);
    CHECK(step_while_possible(hosts, 0) == StepResult::polling);
    // Rank 2 belongs to no lane, so it exchanges nothing with the other host. It only waits for rank 1.
    CHECK(step_while_possible(hosts, 2) == StepResult::waiting);
    // rank 1 has sent its parts to the other host and received all parts from there
    CHECK(step_while_possible(hosts, 1) == StepResult::done);
    CHECK(step_while_possible(hosts, 2) == StepResult::done);
    CHECK(step_while_possible(hosts, 0) == StepResult::done);
    CHECK(hosts.check() == "");
}

TEST_CASE("a failure of the transport is kept, and nothing goes on", "[unit]") {
    for (const Operation operation : {Operation::allreduce, Operation::broadcast, Operation::allgather,
                                      Operation::alltoall, Operation::reducescatter}) {
        BatchPlan plan{operation, {{DType::float32, ReduceOp::sum, 100}}, 1, {}, {}, {}};
        plan.rows.assign(2, 2);
        plan.splits.assign(4, 1);
        HostsOfThreads hosts(few({0, 1}), {plan}, 1);
        CHECK(step_while_possible(hosts, 0) == StepResult::polling);
        CHECK(hosts.communicator(0).failed().is_ok());
        hosts.transport(0).inner().abandon();
        for (int i = 0; i < 3; ++i) {
            CHECK(step_while_possible(hosts, 0) == StepResult::waiting);
        }
        CHECK(hosts.communicator(0).failed().code() == ErrorCode::aborted);
    }
}

TEST_CASE("a message of another size than expected is a failure", "[unit]") {
    BatchPlan plan{Operation::broadcast, {{DType::uint8, ReduceOp::sum, 100}}, 1, {}, {}, {}};
    HostsOfThreads hosts(few({0, 1}), {plan}, 1);
    const std::vector<std::byte> wrong(99);
    REQUIRE(hosts.transport(1).inner().send(0, collectives::Transport::Channel::data, wrong).is_ok());
    CHECK(step_while_possible(hosts, 0) == StepResult::waiting);
    CHECK(hosts.communicator(0).failed().message() ==
          "a message between this rank and rank 1 has 99 bytes instead of 100: do all ranks have the same settings?");
}

TEST_CASE("the buffer of a message in transit outlives an abandoned communicator", "[unit]") {
    for (const Operation operation : {Operation::allreduce, Operation::allgather}) {
        BatchPlan plan{operation, {{DType::float32, ReduceOp::sum, 100}}, 1, {}, {}, {}};
        plan.rows.assign(2, 2);
        HostsOfThreads hosts(few({0, 1}), {plan}, 1);
        CHECK(step_while_possible(hosts, 0) == StepResult::polling);
        const std::size_t under_way = hosts.transport(0).under_way();
        CHECK(under_way > 0);
        hosts.lose(0);
        static_cast<void>(step_while_possible(hosts, 1));  // rank 1 sends a message to the lost host
        std::size_t ended = 0;
        for (collectives::Transport::Ticket ticket = 1; ticket <= under_way; ++ticket) {
            // test() writes to the receive buffer. If the buffer was freed, a sanitizer reports the write.
            const auto result = hosts.transport(0).inner().test(ticket);
            ended += result.is_ok() && result.value() ? 1U : 0U;
        }
        CHECK(ended > 0);
    }
}

/// Runs an alltoall of three ranks, of which ranks 0 and 1 share a host. Rank 0 sends `rows` rows to rank 1, which
/// expects two rows. Rank 2 exchanges nothing. Returns rank 0's result.
std::string end_of_alltoall(std::int64_t rows, std::int64_t rows_of_third) {
    auto transports = collectives::make_thread_transports(3);
    const std::vector<collectives::RankFacts> facts{
        {"a", "", 0, 0, 0, 1}, {"a", "", 0, 0, 0, 2}, {"b", "", 0, 0, 0, 3}};
    const auto arenas = arenas_of(2, few({0, 0, 1}));
    const std::vector<std::int64_t> has_rows{0, rows, 0, 0, 0, 0};
    const std::vector<std::int64_t> gets_rows{0, 0, 0, 2, 0, rows_of_third};
    std::vector<std::uint64_t> input(static_cast<std::size_t>(rows), 7);
    std::vector<std::uint64_t> output(2);
    const std::vector<collectives::Location> locations(2);
    std::vector<std::unique_ptr<collectives::HierarchicalCommunicator>> communicators;
    std::vector<collectives::Segment> segments(2);
    std::vector<collectives::Task*> tasks;
    for (std::size_t rank = 0; rank < 2; ++rank) {
        communicators.push_back(std::make_unique<collectives::HierarchicalCommunicator>(
            arenas[rank], collectives::group_by_host(static_cast<int>(rank), facts), *transports[rank],
            collectives::HierarchicalOptions{}));
        segments[rank].dtype = DType::uint64;
        segments[rank].count = 1;
        segments[rank].input = reinterpret_cast<const std::byte*>(input.data());
        segments[rank].output = rank == 0 ? nullptr : reinterpret_cast<std::byte*>(output.data());
        tasks.push_back(&communicators[rank]->start(
            {Operation::alltoall, {&segments[rank], 1}, locations, rank == 0 ? has_rows : gets_rows, {}}));
    }
    for (int round = 0; round < 1000; ++round) {
        static_cast<void>(tasks[0]->step());
        if (tasks[1]->step() == StepResult::done) {
            return output == std::vector<std::uint64_t>{7, 7} ? "done" : "wrong";
        }
    }
    return communicators[1]->failed().message();
}

TEST_CASE("the sizes that other ranks send are compared with the sizes that they announced", "[unit]") {
    CHECK(end_of_alltoall(2, 0) == "done");
    CHECK(end_of_alltoall(1, 0) == "rank 0 of the process set says that it has 8 bytes for rank 1; expected 16");
    CHECK(end_of_alltoall(3, 0) == "rank 0 of the process set says that it has 24 bytes for rank 1; expected 16");
    CHECK(
        end_of_alltoall(2, std::int64_t{1} << 61) ==
        "rank 2 of the process set sends or is sent 2305843009213693952 rows of 8 bytes, behind 16 bytes of the ranks "
        "before it; expected fewer than 2^64 bytes together");
    CHECK(end_of_alltoall(2, -1) ==
          "rank 2 of the process set sends or is sent -1 rows of 8 bytes, behind 16 bytes of the ranks before it; "
          "expected fewer than 2^64 bytes together");
}

/// A step must end even if there are very many rounds, because a rank notices an abort only between two steps. In this
/// test, rank 0 claims that it sends 2^60 bytes to rank 2, which is on the same host. According to the counters, ranks
/// 0 and 2 are always ready for the next round. Rank 1 takes the steps. It sends and receives nothing.
TEST_CASE("a step ends, however many rounds the others say that there are", "[unit]") {
    auto transports = collectives::make_thread_transports(4);
    const auto arenas = arenas_of(3, few({0, 0, 0, 1}));
    constexpr std::uint64_t kRounds = std::uint64_t{1} << 60;
    for (const std::uint32_t other : {0U, 2U}) {
        for (const auto counter :
             {&collectives::Progress::staged, &collectives::Progress::fetched, &collectives::Progress::ended}) {
            (arenas[1]->progress(other).*counter).store(kRounds);
        }
    }
    std::memcpy(arenas[1]->cell(0, 0) + 2 * sizeof kRounds, &kRounds, sizeof kRounds);
    const std::vector<collectives::RankFacts> facts{
        {"a", "", 0, 0, 0, 1}, {"a", "", 0, 0, 0, 2}, {"a", "", 0, 0, 0, 3}, {"b", "", 0, 0, 0, 4}};
    collectives::HierarchicalCommunicator communicator(arenas[1], collectives::group_by_host(1, facts), *transports[1],
                                                       collectives::HierarchicalOptions{});
    collectives::Segment segment;
    segment.count = 1;
    const std::vector<collectives::Location> locations(3);
    const std::vector<std::int64_t> nothing(8);
    collectives::Task& task = communicator.start({Operation::alltoall, {&segment, 1}, locations, nothing, {}});
    for (int step = 0; step < 10; ++step) {
        CHECK(task.step() == StepResult::advanced);
    }
}

/// Runs an allreduce of two hosts with one rank each. Returns the result.
std::vector<float> of_two(ReduceOp op, std::vector<float> a, std::vector<float> b) {
    std::vector<std::vector<float>> tensors{std::move(a), std::move(b)};
    auto transports = collectives::make_thread_transports(2);
    const std::vector<collectives::RankFacts> facts{{"a", "", 0, 0, 0, 1}, {"b", "", 0, 0, 0, 2}};
    std::vector<std::unique_ptr<collectives::HierarchicalCommunicator>> communicators;
    std::vector<collectives::Segment> segments(2);
    const collectives::Location location;
    std::vector<collectives::Task*> tasks;
    for (std::size_t rank = 0; rank < 2; ++rank) {
        communicators.push_back(std::make_unique<collectives::HierarchicalCommunicator>(
            arenas_of(1, few({0, 1}))[0], collectives::group_by_host(static_cast<int>(rank), facts), *transports[rank],
            collectives::HierarchicalOptions{}));
        segments[rank].reduce_op = op;
        segments[rank].count = tensors[rank].size();
        segments[rank].input = segments[rank].output = reinterpret_cast<std::byte*>(tensors[rank].data());
        tasks.push_back(
            &communicators[rank]->start({Operation::allreduce, {&segments[rank], 1}, {&location, 1}, {}, {}}));
    }
    std::vector<bool> done(2);
    while (!done[0] || !done[1]) {
        for (std::size_t rank = 0; rank < 2; ++rank) {
            done[rank] = done[rank] || tasks[rank]->step() == StepResult::done;
        }
    }
    CHECK(std::memcmp(tensors[0].data(), tensors[1].data(), tensors[0].size() * sizeof(float)) == 0);
    return tensors[0];
}

TEST_CASE("NaN and -0 between hosts are what they are on one", "[unit]") {
    const float nan = -std::numeric_limits<float>::quiet_NaN();
    const float infinity = std::numeric_limits<float>::infinity();
    const auto sum = of_two(ReduceOp::sum, {nan, -0.0F, -0.0F, infinity, 1.0F}, {1.0F, -0.0F, 0.0F, -infinity, nan});
    CHECK((std::isnan(sum[0]) && !std::signbit(sum[0])));
    CHECK((sum[1] == 0.0F && std::signbit(sum[1])));
    CHECK((sum[2] == 0.0F && !std::signbit(sum[2])));
    CHECK((std::isnan(sum[3]) && !std::signbit(sum[3])));
    CHECK((std::isnan(sum[4]) && !std::signbit(sum[4])));
    const auto least = of_two(ReduceOp::min, {nan, 0.0F, -0.0F}, {1.0F, -0.0F, 0.0F});
    CHECK((std::isnan(least[0]) && !std::signbit(least[0])));
    CHECK(std::signbit(least[1]));
    CHECK(std::signbit(least[2]));
    const auto most = of_two(ReduceOp::max, {1.0F, 0.0F, -0.0F}, {nan, -0.0F, 0.0F});
    CHECK((std::isnan(most[0]) && !std::signbit(most[0])));
    CHECK(!std::signbit(most[1]));
    CHECK(!std::signbit(most[2]));
}

TEST_CASE("ranks of several hosts, each in a thread of its own", "[threads]") {
    constexpr Operation kOperations[] = {Operation::allreduce, Operation::broadcast, Operation::allgather,
                                         Operation::alltoall, Operation::reducescatter};
    std::uint32_t seed = 5000;
    for (const HostOf& layout : kLayouts) {
        for (HostsShape shape : shapes_of(layout)) {
            std::mt19937 random(++seed);
            std::vector<BatchPlan> batches;
            for (int i = 0; i < 20; ++i) {
                batches.push_back(any_of(kOperations[i % 5], static_cast<std::uint32_t>(layout.size()), random));
            }
            INFO(shape.text() << ", seed " << seed);
            HostsOfThreads hosts(shape, batches, seed);
            std::vector<std::thread> threads;
            for (std::uint32_t rank = 0; rank < hosts.size(); ++rank) {
                threads.emplace_back([&hosts, rank] {
                    StepResult result = StepResult::advanced;
                    while ((result = hosts.step(rank)) != StepResult::done) {
                        if (result != StepResult::advanced) {
                            std::this_thread::yield();
                        }
                    }
                });
            }
            for (std::thread& thread : threads) {
                thread.join();
            }
            CHECK(hosts.check() == "");
        }
    }
}

TEST_CASE("fewer tensors are small if the number of hosts is no power of two", "[unit]") {
    for (const std::uint32_t hosts : {1U, 2U, 4U, 64U}) {
        CHECK(collectives::small_bytes_for(hosts, 65536) == 65536);
    }
    for (const std::uint32_t hosts : {3U, 5U, 6U, 12U}) {
        CHECK(collectives::small_bytes_for(hosts, 65536) == 16384);
        CHECK(collectives::small_bytes_for(hosts, 0) == 0);
    }
}

}  // namespace
}  // namespace rueda::tests
