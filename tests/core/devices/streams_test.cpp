// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The order of the program's work and of Rueda's, and what the host waits for.
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "tests/core/devices/device_rank.hpp"
#include "tests/support/check_passed.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

TEST_CASE("a program runs ahead of its device, and no host waits", "[streams]") {
    std::size_t waits = 0;
    run_on_devices(2, [&](DeviceRank& rank) {
        constexpr int kSteps = 30;
        float* const data = rank.put(std::vector<float>(100, 1.0F));
        rank.allreduce("gradient", data, 100);  // connects
        rank.synchronize();
        rank.meet("connected");
        const std::size_t before = gpu::host_waits();
        rank.meet("counted");
        for (int step = 0; step < kSteps; ++step) {
            // the name is free as soon as the operation is launched
            rank.allreduce("gradient", data, 100, ReduceOp::average);
        }
        rank.meet("ran ahead");
        if (rank.rank() == 0) {
            waits = gpu::host_waits() - before;
        }
        rank.meet("compared");
        RUEDA_RANK_CHECK(rank.get(data, 100) == std::vector<float>(100, 2.0F));
    });
    CHECK(waits == 0);
}

TEST_CASE("an operation is launched before its device has done it", "[streams]") {
    begin_devices();
    run_on_devices(2, [](DeviceRank& rank) {
        float* const data = rank.put(std::array{1.0F});
        core::Completion completion;
        rank.launch_while_held(/*device=*/0, data, completion);
        RUEDA_RANK_CHECK(!completion.done());
        const Status waited = rank.runtime().wait(completion, 0.05);
        RUEDA_RANK_CHECK(waited.code() == ErrorCode::timeout);
        rank.meet("seen");
        if (rank.rank() == 0) {
            gpu::release_device(0);
        }
        rank.runtime().wait(completion, 20).throw_if_failed();
        RUEDA_RANK_CHECK(rank.get(data, 1).front() == 4.0F);
    });
}

TEST_CASE("during the capture of a graph, operations are refused", "[streams]") {
    run_on_devices(1, [](DeviceRank& rank) {
        float* const data = rank.put(std::array{1.0F});
        rank.synchronize();
        RUEDA_RANK_CHECK(gpu::begin_capture(rank.own_stream(), collectives::cuda::kCaptureModeThreadLocal) ==
                         collectives::cuda::kCudaSuccess);
        core::Completion completion;
        const Status refused = rank.start_allreduce("x", data, 1, completion);
        RUEDA_RANK_CHECK(refused.code() == ErrorCode::unsupported);
        RUEDA_RANK_CHECK(refused.message().find("graph") != std::string::npos);
        RUEDA_RANK_CHECK(gpu::end_capture(rank.own_stream()) == collectives::cuda::kCudaSuccess);
        rank.allreduce("x", data, 1);  // works again, and the capture was not disturbed
        RUEDA_RANK_CHECK(rank.get(data, 1).front() == 1.0F);
    });
}

}  // namespace
}  // namespace rueda::tests
