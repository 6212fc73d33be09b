// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the order between the program's work and Rueda's work, and what the host waits for.
#include <array>
#include <atomic>
#include <bit>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "core/operations/requests.hpp"
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
            // The operation may still run on the GPU. The name is free again as soon as the operation is launched.
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
        // use_device() checks the stream before it checks the set's device.
        const auto used = rank.runtime().use_device(rank.runtime().world(), wrong);
        RUEDA_RANK_CHECK(used.status().code() == ErrorCode::invalid_argument);
        RUEDA_RANK_CHECK(used.status().message().find("not a stream of GPU") != std::string::npos);
        rank.meet("refused");
        gpu::clear_violations();  // the test passed a wrong stream on purpose, and the stand-in has reported it
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
    gpu::set_nccl_progress_calls(3000);  // a launch now takes long
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
    gpu::delay_operations("ncclAllReduce", std::chrono::milliseconds(100));  // the two launches overlap
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

/// Returns float32 elements. The bytes of each element are those of two int16 elements with this value.
std::vector<float> int16_elements(std::int16_t value, std::size_t pairs) {
    return std::vector<float>(pairs, std::bit_cast<float>(std::array{value, value}));
}

/// Starts an allreduce of a group of two tensors of 12 KB, in the given order: float32, which NCCL reduces, and int16,
/// which moves through the host's memory.
void start_mixed_group(DeviceRank& rank, float* floats, float* integers, bool floats_first,
                       core::Completion& completion) {
    const std::int64_t floats_shape = 3000;
    const std::int64_t integers_shape = 6000;
    const rueda_tensor of_floats{floats, &floats_shape, 1, RUEDA_FLOAT32};
    const rueda_tensor of_integers{integers, &integers_shape, 1, RUEDA_INT16};
    std::vector<core::Request> requests(2);
    for (std::uint32_t i = 0; i < 2; ++i) {
        const rueda_tensor& tensor = (i == 0) == floats_first ? of_floats : of_integers;
        requests[i].member = i;
        core::make_allreduce(tensor, tensor, rank.options(), requests[i]).throw_if_failed();
        auto use = rank.runtime().use_device(rank.runtime().world(), rank.stream());
        use.status().throw_if_failed();
        requests[i].device = std::move(use).value();
    }
    const std::vector<std::string> names{floats_first ? "a.0" : "b.0", floats_first ? "a.1" : "b.1"};
    rank.runtime()
        .start_group(rank.runtime().world(), floats_first ? "a" : "b", names, requests, completion)
        .throw_if_failed();
}

void run_mixed_group(const std::string& delayed, bool floats_first) {
    begin_devices();
    base::Config config = DeviceRank::settings();
    // this threshold is so small that each tensor of the group gets its own batch
    config.fusion_threshold_bytes = 4096;
    run_on_devices(
        2,
        [&](DeviceRank& rank) {
            float* const one = rank.put(std::array{1.0F});
            rank.allreduce("x", one, 1);  // connects
            float* const floats = rank.put(std::vector<float>(3000, 1.0F));
            float* const integers = rank.put(int16_elements(5, 3000));
            rank.synchronize();
            rank.meet("written");
            if (rank.rank() == 0) {
                gpu::delay_operations(delayed, std::chrono::milliseconds(100));
            }
            rank.meet("delayed");
            core::Completion completion(2);
            start_mixed_group(rank, floats, integers, floats_first, completion);
            rank.wait_on_stream(completion).throw_if_failed();
            // The rank first reads the tensor of the first batch. At this time the host cannot know yet that the batch
            // has ended.
            const std::vector<float> first = rank.get(floats_first ? floats : integers, 3000);
            const std::vector<float> second = rank.get(floats_first ? integers : floats, 3000);
            RUEDA_RANK_CHECK((floats_first ? first : second) == std::vector<float>(3000, 2.0F));
            RUEDA_RANK_CHECK((floats_first ? second : first) == int16_elements(10, 3000));
            rank.runtime().wait(completion, 20).throw_if_failed();
        },
        config);
    gpu::delay_operations(delayed, std::chrono::milliseconds(0));
}

TEST_CASE("a stream waits for all batches of a group, although they end in different streams", "[streams]") {
    run_mixed_group("ncclAllReduce", /*floats_first=*/true);
    run_mixed_group("cuMemcpyAsync", /*floats_first=*/false);
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
        rank.allreduce("x", data, 1);  // after the end of the capture, operations work again
        RUEDA_RANK_CHECK(rank.get(data, 1).front() == 1.0F);
    });
}

}  // namespace
}  // namespace rueda::tests
