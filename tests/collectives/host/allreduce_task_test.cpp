// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests allreduces over the ranks of one host. On every path, the result must have the bits of a sum in rank order.
#include <array>
#include <catch2/catch.hpp>

#include "tests/collectives/host/hand_made_batches.hpp"
#include "tests/ops/buffers.hpp"

namespace rueda::tests {
namespace {

using collectives::Operation;

/// Returns tensor sizes (numbers of float32 elements) just below, at, and just above each threshold. If a tensor is
/// smaller than the threshold, each member combines the whole tensor. If it is larger, each member combines only a
/// share. The thresholds depend on the number of members. This function uses the thresholds for 2 members and the
/// thresholds for `members` members.
std::vector<std::uint64_t> around_thresholds(std::uint32_t members) {
    std::vector<std::uint64_t> counts;
    for (const std::uint64_t bytes : {8U * 1024, 24U * 1024, 40U * 1024, 64U * 1024 / members}) {
        for (const std::uint64_t count : {bytes / 4 - 1, bytes / 4, bytes / 4 + 1}) {
            counts.push_back(count);
        }
    }
    return counts;
}

std::vector<BatchPlan> batches_of_all_kinds() {
    std::vector<BatchPlan> batches;
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::product}) {
        BatchPlan batch;
        for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16, DType::float64, DType::int32,
                                  DType::uint8, DType::int64, DType::uint16, DType::uint64, DType::boolean}) {
            const bool integer = ops::test::is_integer(dtype);
            if (!ops::is_defined({.dtype = dtype, .op = op})) {
                continue;
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

TEST_CASE("every kind of tensor, staged, resident and mixed", "[unit]") {
    std::mt19937 random(1);
    const std::vector<BatchPlan> batches = batches_of_all_kinds();
    for (const std::uint32_t members : kMembers) {
        for (const Residency residency : kResidencies) {
            for (const std::uint64_t cell_bytes : {std::uint64_t{256}, std::uint64_t{8192}}) {
                CAPTURE(members, static_cast<int>(residency), cell_bytes);
                HandMadeJob job({members, cell_bytes, cell_bytes == 256 ? 2U : 4U, residency}, batches,
                                static_cast<std::uint32_t>(random()));
                REQUIRE(job.run(random));
                check_outputs(job, batches);
            }
        }
    }
}

TEST_CASE("the way changes with the size, and the bits do not", "[unit]") {
    std::mt19937 random(2);
    for (const std::uint32_t members : kMembers) {
        for (const std::uint64_t count : around_thresholds(members)) {
            for (const Residency residency : kResidencies) {
                CAPTURE(members, count, static_cast<int>(residency));
                const std::vector<BatchPlan> batches = {{Operation::allreduce, {{.count = count}}}};
                HandMadeJob job({members, 65536, 4, residency}, batches, static_cast<std::uint32_t>(random()));
                REQUIRE(job.run(random));
                check_outputs(job, batches);
            }
        }
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
                case 2:  // an average of integers: each rank combines only its share of the tensor
                    batches.push_back(
                        {Operation::allreduce, {{.dtype = DType::int32, .op = ReduceOp::average, .count = 20000}}});
                    break;
                default:
                    batches.push_back({Operation::allreduce, {{.count = 16000 + random() % 5000}, {.count = 17}}});
                    break;
            }
        }
        const std::uint32_t members = kMembers[seed % kMembers.size()];
        const std::uint64_t cell_bytes = seed % 3 == 0 ? 512 : 4096;
        CAPTURE(seed, members, cell_bytes);
        HandMadeJob job({members, cell_bytes, 2 + seed % 3, kResidencies[seed % 3]}, batches, seed);
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
    for (const std::uint32_t members : {2U, 3U, 4U}) {
        for (const Residency residency : kResidencies) {
            HandMadeJob job({members, 4096, 2, residency}, batches, 5);
            job.run_as_threads();
            CAPTURE(members, static_cast<int>(residency));
            check_outputs(job, batches);
        }
    }
}

}  // namespace rueda::tests
