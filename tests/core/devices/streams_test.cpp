// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The order of the program's work and of Rueda's, and what the host waits for.
#include <array>
#include <atomic>
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

TEST_CASE("a stream of another device is refused, and the job goes on", "[streams]") {
    run_on_devices(2, [](DeviceRank& rank) {
        float* const data = rank.put(std::array{1.0F});
        rank.allreduce("x", data, 1);
        const rueda_device_stream wrong{RUEDA_CUDA, rank.stream().index + 4, rank.own_stream()};
        // The set's device is checked after the stream.
        const auto used = rank.runtime().use_device(rank.runtime().world(), wrong);
        RUEDA_RANK_CHECK(used.status().code() == ErrorCode::invalid_argument);
        RUEDA_RANK_CHECK(used.status().message().find("not a stream of GPU") != std::string::npos);
        rank.meet("refused");
        gpu::clear_violations();  // the stand-in reports what the program did
        rank.allreduce("x", data, 1);
        RUEDA_RANK_CHECK(rank.get(data, 1).front() == 4.0F);
    });
}

TEST_CASE("the null stream of another device waits for an operation, and the device is opened once", "[streams]") {
    run_on_devices(1, [](DeviceRank& rank) {
        float* const data = rank.put(std::array{1.0F});
        core::Completion completion;
        rank.start_allreduce("x", data, 1, completion).throw_if_failed();
        const rueda_device_stream other{RUEDA_CUDA, 6, nullptr};
        rank.runtime().wait_on_stream(completion, other, 20).throw_if_failed();
        const std::size_t before = gpu::calls("cuDevicePrimaryCtxRetain");
        for (int i = 0; i < 5; ++i) {
            rank.runtime().wait_on_stream(completion, other, 20).throw_if_failed();
        }
        RUEDA_RANK_CHECK(gpu::calls("cuDevicePrimaryCtxRetain") == before);
        rank.runtime().wait(completion, 20).throw_if_failed();
    });
}

TEST_CASE("a name is in use until its operation is launched", "[streams]") {
    begin_devices();
    gpu::set_nccl_progress_calls(3000);  // so that the launch takes long
    run_on_devices(2, [](DeviceRank& rank) {
        float* const data = rank.put(std::array{1.0F});
        core::Completion first;
        rank.start_allreduce("x", data, 1, first).throw_if_failed();
        Status again(ErrorCode::duplicate_name, "");
        core::Completion second;
        while (again.code() == ErrorCode::duplicate_name) {
            static_cast<void>(rank.runtime().poll(first));
            again = rank.start_allreduce("x", data, 1, second);
        }
        again.throw_if_failed();
        RUEDA_RANK_CHECK(first.is_launched());
        rank.wait_on_stream(second).throw_if_failed();
        rank.runtime().wait(second, 20).throw_if_failed();
        RUEDA_RANK_CHECK(first.done());
    });
    gpu::set_nccl_progress_calls(3);
}

TEST_CASE("an operation ends although a later one waits for the program", "[streams]") {
    begin_devices();
    gpu::delay_operations("ncclAllReduce", std::chrono::milliseconds(100));  // so that both are launched at one time
    run_on_devices(1, [](DeviceRank& rank) {
        float* const data = rank.put(std::array{1.0F});
        core::Completion first;
        rank.start_allreduce("first", data, 1, first).throw_if_failed();
        rank.wait_on_stream(first).throw_if_failed();
        static std::atomic<bool> may_go;
        may_go.store(false);
        const auto wait = [](void* /*argument*/) {
            while (!may_go.load()) {
                std::this_thread::yield();
            }
        };
        RUEDA_RANK_CHECK(rank.cuda().launch_host_function(rank.own_stream(), wait, nullptr) ==
                         collectives::cuda::kCudaSuccess);
        core::Completion second;
        rank.start_allreduce("second", data, 1, second).throw_if_failed();
        rank.wait_on_stream(second).throw_if_failed();  // launched
        const Status ended = rank.runtime().wait(first, 20);
        const bool is_second_done = second.done();
        may_go.store(true);
        RUEDA_RANK_CHECK(ended.is_ok() && !is_second_done);
        rank.runtime().wait(second, 20).throw_if_failed();
    });
    gpu::delay_operations("ncclAllReduce", std::chrono::milliseconds(0));
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
