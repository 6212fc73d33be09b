// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests Adasum over the ranks of one host. The result must have the bits that the definition of Adasum prescribes. The
// bits must not depend on the path that a tensor takes (for example in its announcement, or in chunks). They must not
// depend on the other adasums of the batch, either.
#include <array>
#include <catch2/catch.hpp>

#include "tests/collectives/host/hand_made_batches.hpp"

namespace rueda::tests {
namespace {

using collectives::Operation;

constexpr std::array kFloats = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

TensorPlan any_adasum(std::mt19937& random) {
    TensorPlan tensor;
    tensor.dtype = kFloats[random() % kFloats.size()];
    tensor.op = ReduceOp::adasum;
    tensor.count = random() % 4 == 0 ? random() % 20000 : random() % 300;
    tensor.prescale = random() % 3 == 0 ? 0.5 : 1.0;
    tensor.postscale = random() % 3 == 0 ? -3.0 : 1.0;
    tensor.travels = tensor.count < 300 && random() % 3 == 0;
    return tensor;
}

std::vector<BatchPlan> any_batches(std::mt19937& random, int count) {
    std::vector<BatchPlan> batches;
    for (int i = 0; i < count; ++i) {
        BatchPlan batch;
        for (auto tensors = 1 + random() % 5; tensors > 0; --tensors) {
            batch.tensors.push_back(any_adasum(random));
        }
        batches.push_back(batch);
        if (random() % 3 == 0) {
            batches.push_back({Operation::reducescatter, {{.count = 1 + random() % 3000}}});
        }
        if (random() % 3 == 0) {
            batches.push_back({Operation::allreduce, {{.count = 1 + random() % 9000}}});
        }
    }
    return batches;
}

}  // namespace

TEST_CASE("adasum of every kind of tensor, one after the other with other batches", "[unit]") {
    std::mt19937 random(1);
    for (const std::uint32_t members : kMembers) {
        for (const Residency residency : kResidencies) {
            for (const std::uint64_t cell_bytes : {64U, 256U, 8192U, 65536U}) {
                const std::vector<BatchPlan> batches = any_batches(random, 6);
                const std::uint32_t cells = 2 + static_cast<std::uint32_t>(random() % 4);
                CAPTURE(members, static_cast<int>(residency), cell_bytes, cells);
                HandMadeJob job({members, cell_bytes, cells, residency}, batches, static_cast<std::uint32_t>(random()));
                REQUIRE(job.run(random));
                check_outputs(job, batches);
            }
        }
    }
}

TEST_CASE("adasum of members as threads", "[threads]") {
    std::mt19937 random(2);
    for (const std::uint32_t members : {2U, 3U, 4U}) {
        for (const Residency residency : kResidencies) {
            const std::vector<BatchPlan> batches = any_batches(random, 8);
            HandMadeJob job({members, 4096, 2 + static_cast<std::uint32_t>(random() % 3), residency}, batches, 5);
            job.run_as_threads();
            CAPTURE(members, static_cast<int>(residency));
            check_outputs(job, batches);
        }
    }
}

}  // namespace rueda::tests
