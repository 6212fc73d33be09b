// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Allreduces over ranks on several NUMA nodes. The result must have the bits that the definition of the order gives, on
// every path.
#include <array>
#include <catch2/catch.hpp>
#include <thread>

#include "collectives/host/tasks/numa_allreduce_task.hpp"
#include "tests/collectives/host/hand_made_batches.hpp"
#include "tests/ops/buffers.hpp"

namespace rueda::tests {
namespace {

using collectives::Operation;
using collectives::StepResult;
using Nodes = std::vector<std::int32_t>;

constexpr std::array kResidencies = {Residency::none, Residency::all, Residency::mixed};
/// Nodes of equal size, of different sizes, members assigned in turn, three nodes, node numbers not in the order of
/// first members, and a node with one member.
const std::vector<Nodes> kLayouts = {
    {0, 0, 1, 1}, {0, 0, 0, 1}, {0, 1, 0, 1}, {0, 1, 1, 2, 2, 2}, {3, 1, 3, 1, 1}, {0, 1, 1}, {0, 0, 1, 1, 2, 2, 3, 3}};

void check_outputs(const HandMadeJob& job, const std::vector<BatchPlan>& batches) {
    for (std::size_t batch = 0; batch < batches.size(); ++batch) {
        for (std::size_t tensor = 0; tensor < batches[batch].tensors.size(); ++tensor) {
            for (std::uint32_t member = 0; member < job.members(); ++member) {
                CAPTURE(batch, tensor, member);
                REQUIRE(job.output(batch, tensor, member) == job.expected_output(batch, tensor, member));
            }
            CHECK(job.inputs_are_intact(batch, tensor));
        }
    }
}

/// Numbers of float32 on both sides of the size at which a batch of this many members begins to use partial results.
std::vector<std::uint64_t> around_threshold(std::size_t members) {
    const std::uint64_t bytes = 64 * 1024 / members;
    return {bytes / 4 - 1, bytes / 4, bytes / 4 + 1};
}

std::vector<BatchPlan> batches_of_all_kinds() {
    std::vector<BatchPlan> batches;
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::product}) {
        BatchPlan batch;
        for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16, DType::float64, DType::int32,
                                  DType::uint8, DType::int64, DType::uint16, DType::uint64, DType::boolean}) {
            const bool integer = ops::test::is_integer(dtype);
            if ((op == ReduceOp::average && integer) || !ops::is_defined({.dtype = dtype, .op = op})) {
                continue;  // averages of integers would make the whole batch go the other way; they are tested below
            }
            const bool is_float = !integer && dtype != DType::boolean;
            batch.tensors.push_back({.dtype = dtype, .op = op, .count = 9000 / size_of(dtype) + 13});
            batch.tensors.push_back({.dtype = dtype,
                                     .op = op,
                                     .count = 301,
                                     .prescale = is_float ? 0.75 : 1.0,
                                     .postscale = dtype == DType::boolean ? 1.0 : 1.5});
            batch.tensors.push_back({.dtype = dtype, .op = op, .count = 100, .travels = true});
        }
        batch.tensors.push_back({.count = 0});
        batches.push_back(batch);
    }
    return batches;
}

}  // namespace

TEST_CASE("every kind of tensor, every layout of nodes, staged, resident and mixed", "[unit]") {
    std::mt19937 random(1);
    const std::vector<BatchPlan> batches = batches_of_all_kinds();
    for (const Nodes& nodes : kLayouts) {
        for (const Residency residency : kResidencies) {
            for (const std::uint64_t cell_bytes : {std::uint64_t{256}, std::uint64_t{8192}}) {
                CAPTURE(nodes, static_cast<int>(residency), cell_bytes);
                HandMadeJob job({nodes, cell_bytes, cell_bytes == 256 ? 2U : 4U, residency}, batches,
                                static_cast<std::uint32_t>(random()));
                REQUIRE(job.run(random));
                CHECK(job.went_by_partials());
                check_outputs(job, batches);
            }
        }
    }
}

TEST_CASE("the way changes with the size, and the bits do not", "[unit]") {
    std::mt19937 random(2);
    for (const Nodes& nodes : kLayouts) {
        for (const std::uint64_t count : around_threshold(nodes.size())) {
            for (const Residency residency : kResidencies) {
                CAPTURE(nodes, count, static_cast<int>(residency));
                const std::vector<BatchPlan> batches = {{Operation::allreduce, {{.count = count}}}};
                HandMadeJob job({nodes, 65536, 4, residency}, batches, static_cast<std::uint32_t>(random()));
                REQUIRE(job.run(random));
                CHECK(job.went_by_partials() == (count * 4 > 64 * 1024 / nodes.size()));
                check_outputs(job, batches);
            }
        }
    }
}

TEST_CASE("an average of integers is exact, and takes its batch along in rank order of work", "[unit]") {
    std::mt19937 random(3);
    for (const Residency residency : kResidencies) {
        const std::vector<BatchPlan> batches = {{Operation::allreduce,
                                                 {{.dtype = DType::uint8, .op = ReduceOp::average, .count = 70000},
                                                  {.dtype = DType::int64, .op = ReduceOp::average, .count = 5000},
                                                  {.dtype = DType::float32, .op = ReduceOp::average, .count = 9000}}}};
        HandMadeJob job({{0, 0, 1, 1}, 4096, 4, residency}, batches, 3);
        REQUIRE(job.run(random));
        CHECK_FALSE(job.went_by_partials());
        check_outputs(job, batches);
    }
}

TEST_CASE("batches of all ways one after the other use the same cells", "[unit]") {
    std::mt19937 random(4);
    for (std::uint32_t seed = 0; seed < 60; ++seed) {
        std::vector<BatchPlan> batches;
        for (int i = 0; i < 12; ++i) {
            switch (random() % 5) {
                case 0:  // a small batch: every rank combines all of it
                    batches.push_back({Operation::allreduce, {{.count = 1 + random() % 500}}});
                    break;
                case 1:
                    batches.push_back({Operation::reducescatter, {{.count = 1 + random() % 3000}}});
                    break;
                case 2:  // an average of integers: combined in shares, in rank order
                    batches.push_back(
                        {Operation::allreduce, {{.dtype = DType::int32, .op = ReduceOp::average, .count = 20000}}});
                    break;
                default:
                    batches.push_back({Operation::allreduce, {{.count = 16000 + random() % 5000}, {.count = 17}}});
                    break;
            }
        }
        const Nodes& nodes = kLayouts[seed % kLayouts.size()];
        const std::uint64_t cell_bytes = seed % 3 == 0 ? 512 : 4096;
        CAPTURE(seed, nodes, cell_bytes);
        HandMadeJob job({nodes, cell_bytes, 2 + seed % 3, kResidencies[seed % 3]}, batches, seed);
        REQUIRE(job.run(random));
        check_outputs(job, batches);
    }
}

TEST_CASE("members as threads", "[threads]") {
    std::vector<BatchPlan> batches;
    for (int i = 0; i < 6; ++i) {
        batches.push_back({Operation::allreduce, {{.op = ReduceOp::average, .count = 20000}, {.count = 33}}});
        batches.push_back({Operation::reducescatter, {{.count = 999}}});
    }
    for (const Nodes& nodes : {Nodes{0, 0, 1, 1}, Nodes{0, 1, 0}}) {
        for (const Residency residency : kResidencies) {
            HandMadeJob job({nodes, 4096, 2, residency}, batches, 5);
            std::vector<std::thread> threads;
            for (std::uint32_t member = 0; member < job.members(); ++member) {
                threads.emplace_back([&job, member] {
                    for (StepResult result = StepResult::advanced; result != StepResult::done;) {
                        result = job.step(member);
                        if (result == StepResult::waiting) {
                            std::this_thread::yield();
                        }
                    }
                });
            }
            for (std::thread& thread : threads) {
                thread.join();
            }
            CAPTURE(nodes, static_cast<int>(residency));
            check_outputs(job, batches);
        }
    }
}

}  // namespace rueda::tests
