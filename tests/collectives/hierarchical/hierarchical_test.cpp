// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "tests/collectives/hierarchical/hosts_of_threads.hpp"
#include "tests/ops/buffers.hpp"

namespace rueda::tests {
namespace {

using collectives::Operation;
using collectives::StepResult;
using HostOf = std::vector<std::uint32_t>;

const std::vector<HostOf> kLayouts = {
    {0, 1},                    // one rank on each
    {0, 0, 1, 1},              // two
    {0, 1, 1, 2, 2, 2},        // unequal: one lane
    {0, 0, 0, 1, 1, 2, 2, 2},  // unequal: two lanes
    {0, 1, 2, 3, 4},           // five of one
    {0, 1, 0, 1},              // not one after the other
    {0, 1, 2, 1, 0, 2, 2},     //
    {0, 0, 0},                 // a single host
};

/// With tiny chunks a small tensor takes every way that a large one does.
std::vector<HostsShape> shapes_of(const HostOf& layout) {
    const HostsShape tiny{layout, 256, 2, Residency::none, {512, false, 128}, 3};
    const HostsShape odd{layout, 320, 3, Residency::mixed, {512, false, 192}, 0};
    const HostsShape resident{layout, 4096, 4, Residency::all, {1024, false, 0}, 2};
    const HostsShape usual{layout, 65536, 4, Residency::mixed, {2048, false, 0}, 0};
    const HostsShape tiny_ring{layout, 256, 2, Residency::mixed, {64, true, 256}, 2};
    return {tiny, odd, resident, usual, tiny_ring};
}

template <class T>
T draw(std::mt19937& random, T end) {
    return static_cast<T>(random() % static_cast<std::uint32_t>(end));
}

TensorPlan any_tensor(std::mt19937& random, std::uint64_t most) {
    TensorPlan tensor;
    tensor.dtype = ops::test::kDTypes[random() % std::size(ops::test::kDTypes)];
    tensor.op = ops::test::kOps[random() % std::size(ops::test::kOps)];
    tensor.count = draw(random, most + 1);
    tensor.prescale = random() % 3 == 0 ? 0.75 : 1.0;
    tensor.postscale = random() % 3 == 0 ? 1.0 / 3 : 1.0;
    return tensor;
}

BatchPlan any_allreduce(std::mt19937& random) {
    BatchPlan plan;
    for (auto tensors = 1 + random() % 5; tensors > 0; --tensors) {
        plan.tensors.push_back(any_tensor(random, random() % 3 == 0 ? 2500 : 60));
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
    if (collectives::is_by_rows(operation) && operation != Operation::reducescatter && random() % 3 == 0) {
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

TEST_CASE("a broadcast over several hosts", "[unit]") { check_operation(Operation::broadcast); }

TEST_CASE("an allgather over several hosts", "[unit]") { check_operation(Operation::allgather); }

TEST_CASE("an alltoall over several hosts", "[unit]") { check_operation(Operation::alltoall); }

TEST_CASE("a reducescatter over several hosts", "[unit]") { check_operation(Operation::reducescatter); }

TEST_CASE("every dtype and every reduction over several hosts", "[unit]") {
    for (const HostOf& layout : kLayouts) {
        BatchPlan plan;
        for (const DType dtype : ops::test::kDTypes) {
            for (const ReduceOp op : ops::test::kOps) {
                plan.tensors.push_back({dtype, op, 37, 1.0, 1.0});
                plan.tensors.push_back({dtype, op, 700, 0.5, 3.0});
            }
        }
        for (const HostsShape& shape : shapes_of(layout)) {
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

TEST_CASE("chunks of the usual size over several hosts", "[unit]") {
    for (const HostOf& layout : {HostOf{0, 1}, HostOf{0, 0, 1, 1}, HostOf{0, 1, 1, 2}}) {
        for (const bool ring : {false, true}) {
            const HostsShape shape{layout, 65536, 4, Residency::none, {65536, ring, 0}, 1};
            BatchPlan plan;
            plan.tensors = {{DType::float32, ReduceOp::average, 700'001, 1.0, 1.0},
                            {DType::float32, ReduceOp::sum, 3, 1.0, 1.0},
                            {DType::bfloat16, ReduceOp::sum, 16'384, 1.0, 1.0},
                            {DType::float32, ReduceOp::sum, 16'384, 1.0, 1.0},
                            {DType::float32, ReduceOp::sum, 16'385, 1.0, 1.0}};
            BatchPlan broadcast{
                Operation::broadcast, {{DType::uint8, ReduceOp::sum, 1'000'003, 1.0, 1.0}}, 1, {}, {}, {}};
            check(shape, {plan, broadcast}, 5);
        }
    }
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

}  // namespace
}  // namespace rueda::tests
