// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests failures of operations on device memory, and the errors that the ranks get.
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <vector>

#include "core/operations/requests.hpp"
#include "tests/core/devices/device_rank.hpp"
#include "tests/support/check_passed.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

bool contains(const Status& status, const char* text) { return status.message().find(text) != std::string::npos; }

Status outcome_of(DeviceRank& rank, const std::string& name, float* data, ReduceOp op = ReduceOp::sum) {
    core::Completion completion;
    RUEDA_RETURN_IF_FAILED(rank.start_allreduce(name, data, 1, completion, op));
    return rank.runtime().wait(completion, 20);
}

TEST_CASE("a tensor on a device and one in the CPU's memory are a mismatch", "[failures]") {
    run_on_devices(2, [](DeviceRank& rank) {
        float* const data = rank.put(std::array{1.0F});
        std::array<float, 1> on_cpu{1.0F};
        for (int i = 0; i < 3; ++i) {
            const Status status = rank.rank() == 0 ? outcome_of(rank, "x", data) : rank.allreduce_on_cpu("x", on_cpu);
            RUEDA_RANK_CHECK(status.code() == ErrorCode::mismatch);
            RUEDA_RANK_CHECK(contains(status, "the ranks disagree about the device: rank 0: a GPU; rank 1: the CPU"));
        }
        rank.allreduce("y", data, 1);
        RUEDA_RANK_CHECK(rank.get(data, 1).front() == 2.0F);
    });
}

TEST_CASE("what NCCL cannot do moves through the host's memory", "[failures]") {
    run_on_devices(2, [](DeviceRank& rank) {
        float* const data = rank.put(std::array{3.0F});
        RUEDA_RANK_CHECK(outcome_of(rank, "x", data, ReduceOp::adasum).is_ok());
        RUEDA_RANK_CHECK(rank.get(data, 1).front() == 3.0F);  // Adasum of equal tensors is their average
        core::Completion completion;
        rueda_options options = rank.options(ReduceOp::max);
        options.prescale = 0.5;
        const DeviceTensor tensor(data, 1);
        rank.start("y", options, completion,
                   [&](core::ProcessSet& /*set*/, const rueda_options& o, core::Request& request) {
                       return core::make_allreduce(tensor.c(), tensor.c(), o, request);
                   })
            .throw_if_failed();
        RUEDA_RANK_CHECK(rank.runtime().wait(completion, 20).is_ok());
        RUEDA_RANK_CHECK(rank.get(data, 1).front() == 1.5F);
        rank.allreduce("x", data, 1);
        RUEDA_RANK_CHECK(rank.get(data, 1).front() == 3.0F);
    });
}

TEST_CASE("a failure of a copy on one rank ends the job on all ranks", "[failures]") {
    run_on_one_device(2, [](DeviceRank& rank) {
        float* const data = rank.put(std::array{1.0F});
        rank.allreduce("x", data, 1);
        rank.synchronize();
        rank.meet("connected");
        if (rank.rank() == 0) {
            gpu::fail_call("cuMemcpyAsync", 1, collectives::cuda::kCudaOutOfMemory);
        }
        rank.meet("planted");
        const auto began = std::chrono::steady_clock::now();
        const Status status = outcome_of(rank, "x", data);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
        RUEDA_RANK_CHECK(!status.is_ok() && contains(status, "cuMemcpyAsync failed on GPU 5"));
        RUEDA_RANK_CHECK(took.count() < 5);
        rank.meet("failed");
    });
}

TEST_CASE("an abort ends a batch that moves through the host's memory", "[failures]") {
    run_on_one_device(2, [](DeviceRank& rank) {
        float* const data = rank.put(std::array{1.0F});
        rank.connect_and_hold(/*device=*/5, data);
        core::Completion completion;
        rank.start_allreduce("x", data, 1, completion).throw_if_failed();
        rank.meet("submitted");
        const auto began = std::chrono::steady_clock::now();
        if (rank.rank() == 0) {
            rank.runtime().abort("the loss is not finite");
        }
        const Status ended = rank.runtime().wait(completion, 20);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
        RUEDA_RANK_CHECK(ended.code() == ErrorCode::aborted && contains(ended, "the loss is not finite"));
        RUEDA_RANK_CHECK(took.count() < 5);
        rank.meet("aborted");
        if (rank.rank() == 0) {
            gpu::release_device(5);
        }
    });
}

TEST_CASE("a rank uses one device in a process set", "[failures]") {
    run_on_devices(1, [](DeviceRank& rank) {
        float* const data = rank.put(std::array{1.0F});
        rank.allreduce("x", data, 1);
        const auto used = rank.runtime().use_device(rank.runtime().world(), {RUEDA_CUDA, 3, nullptr});
        RUEDA_RANK_CHECK(used.status().code() == ErrorCode::invalid_argument);
        RUEDA_RANK_CHECK(contains(used.status(), "device 3") && contains(used.status(), "device 0"));
    });
}

TEST_CASE("an abort ends operations that a device still works on", "[failures]") {
    run_on_devices(2, [](DeviceRank& rank) {
        float* const data = rank.put(std::array{1.0F});
        core::Completion completion;
        rank.launch_while_held(/*device=*/1, data, completion);
        const std::size_t ends = gpu::calls("ncclCommFinalize");
        rank.meet("launched");
        const auto began = std::chrono::steady_clock::now();
        if (rank.rank() == 0) {
            rank.runtime().abort("the loss is not finite");
        }
        const Status ended = rank.runtime().wait(completion, 20);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
        RUEDA_RANK_CHECK(ended.code() == ErrorCode::aborted && contains(ended, "the loss is not finite"));
        RUEDA_RANK_CHECK(took.count() < 1);
        rank.meet("aborted");
        // after an abort, no rank may call ncclCommFinalize, because this call waits for the other ranks
        RUEDA_RANK_CHECK(gpu::calls("ncclCommFinalize") == ends);
        if (rank.rank() == 0) {
            gpu::release_device(1);
        }
        RUEDA_RANK_CHECK(outcome_of(rank, "x", data).code() == ErrorCode::aborted);
    });
}

TEST_CASE("an error of NCCL after the launch ends the job with NCCL's text", "[failures]") {
    run_on_devices(2, [](DeviceRank& rank) {
        float* const data = rank.put_for_ever(std::array{1.0F});
        rank.allreduce("x", data, 1);  // connects
        rank.synchronize();
        rank.meet("connected");
        if (rank.rank() == 0) {
            gpu::fail_operation(1, collectives::cuda::kNcclSystemError);
        }
        rank.meet("will fail");
        core::Completion completion;
        rank.start_allreduce("x", data, 1, completion).throw_if_failed();
        const Status ended = rank.runtime().wait(completion, 20);
        RUEDA_RANK_CHECK(ended.code() == ErrorCode::aborted && contains(ended, "ncclSystemError"));
        // The stand-in lets the first operation that it executes fail. This operation may be on either rank.
        RUEDA_RANK_CHECK(contains(ended, "failed on rank 0 (its GPU 0)") ||
                         contains(ended, "failed on rank 1 (its GPU 1)"));
    });
}

TEST_CASE("a rank that has joined takes part in operations on a device", "[failures]") {
    run_on_devices(3, [](DeviceRank& rank) {
        float* const data = rank.put(std::array{static_cast<float>(rank.rank() + 1)});
        rank.allreduce("x", data, 1);
        RUEDA_RANK_CHECK(rank.get(data, 1).front() == 6.0F);
        if (rank.rank() != 1) {
            rank.write(data, std::array{10.0F});
            rank.allreduce("x", data, 1);
            RUEDA_RANK_CHECK(rank.get(data, 1).front() == 20.0F);
        }
        core::Completion joined;
        rank.runtime().start_join(joined, /*counted=*/false).throw_if_failed();
        rank.runtime().wait(joined, 20).throw_if_failed();
    });
}

TEST_CASE("a rank that joined before its first operation on a device is named", "[failures]") {
    run_on_devices(2, [](DeviceRank& rank) {
        if (rank.rank() == 0) {
            float* const data = rank.put(std::array{1.0F});
            const Status status = outcome_of(rank, "x", data);
            RUEDA_RANK_CHECK(status.code() == ErrorCode::unsupported);
            RUEDA_RANK_CHECK(contains(status, "rank 1 called join() before the first operation"));
        }
        core::Completion joined;
        rank.runtime().start_join(joined, /*counted=*/false).throw_if_failed();
        rank.runtime().wait(joined, 20).throw_if_failed();
    });
}

}  // namespace
}  // namespace rueda::tests
