// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests device memory that Rueda allocates for the program, and the registration of this memory with NCCL.
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "core/operations/requests.hpp"
#include "core/runtime/devices.hpp"
#include "tests/core/devices/device_rank.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

using namespace std::chrono_literals;

/// Counts the calls of a function since this object was made.
class Calls {
public:
    explicit Calls(std::string function) : function_(std::move(function)), before_(gpu::calls(function_)) {}
    [[nodiscard]] std::size_t count() const { return gpu::calls(function_) - before_; }

private:
    std::string function_;
    std::size_t before_;
};

/// Makes calls that free unused memory, until at most `before` bytes are allocated on the devices. Returns false if
/// this takes too long.
bool returns_to(std::size_t before) {
    const auto limit = std::chrono::steady_clock::now() + 20s;
    while (gpu::allocated_bytes() > before && std::chrono::steady_clock::now() < limit) {
        auto* const devices = core::opened_devices();
        const auto one = devices->allocate(0, 1, collectives::DevicePath::host);
        RUEDA_RANK_CHECK(one.is_ok() && devices->deallocate(one.value()));
        std::this_thread::sleep_for(1ms);
    }
    return gpu::allocated_bytes() <= before;
}

/// Frees unused memory that earlier tests left. This needs two calls: the first call records events, and the second
/// call finds that they were reached. Otherwise a call in the middle of a test could free this memory. The driver would
/// then wait for the device, whose work the test may hold back.
void free_all_unused() {
    for (int call = 0; call < 2; ++call) {
        gpu::settle();
        auto* const devices = core::opened_devices();
        const auto one = devices->allocate(0, 1, collectives::DevicePath::host);
        REQUIRE(one.is_ok());
        REQUIRE(devices->deallocate(one.value()));
    }
    gpu::settle();
}

/// Makes Rueda allocate all of its scratch memory, so that a test counts only the memory that the test itself causes.
void warm_up() {
    begin_devices();
    run_on_devices(2, [](DeviceRank& rank) { rank.allreduce("x", rank.put(std::array{1.0F}), 1); });
    free_all_unused();
}

TEST_CASE("all ranks register memory of Rueda once, and free it", "[memory]") {
    warm_up();
    const std::size_t before = gpu::allocated_bytes();
    const Calls registrations("ncclCommRegister");
    const Calls ends("ncclCommDeregister");
    const Calls frees("ncclMemFree");
    run_on_devices(2, [&](DeviceRank& rank) {
        const std::vector<float> values(1000, 1.0F + static_cast<float>(rank.rank()));
        float* const data = rank.allocate_with_rueda(values);
        for (int step = 0; step < 3; ++step) {
            rank.allreduce("gradient", data, 1000, ReduceOp::average);
        }
        rank.allreduce("part", data + 100, 10);
        RUEDA_RANK_CHECK(rank.get(data, 1000)[0] == 1.5F);
        RUEDA_RANK_CHECK(rank.get(data, 1000)[100] == 3.0F);
        rank.meet("counted");
        RUEDA_RANK_CHECK(registrations.count() == 2);
        rank.meet("freed");
        rank.deallocate(data);
        float* const other = rank.put(std::array{1.0F});
        rank.allreduce("other", other, 1);  // ends the registration
        RUEDA_RANK_CHECK(rank.get(other, 1)[0] == 2.0F);
        rank.meet("ended");
        RUEDA_RANK_CHECK(ends.count() == 2);
    });
    CHECK(returns_to(before));
    CHECK(frees.count() == 2);
}

TEST_CASE("memory whose use the ranks disagree about is not registered", "[memory]") {
    warm_up();
    const Calls registrations("ncclCommRegister");
    const Calls ends("ncclCommDeregister");
    const std::string what = GENERATE(as<std::string>{}, "memory", "offset", "output");
    const bool registers_first = GENERATE(true, false);
    CAPTURE(what, registers_first);
    run_on_devices(2, [&](DeviceRank& rank) {
        const bool is_different = rank.rank() == 1;
        float* const own = rank.allocate_with_rueda(std::vector<float>(100, 1.0F));
        float* const plain = rank.put(std::vector<float>(100, 1.0F));
        if (registers_first) {
            rank.allreduce("first", own, 50);
        }
        float* const in = is_different && what == "memory" ? plain : is_different && what == "offset" ? own + 1 : own;
        float* const out = is_different && what == "output" ? plain : in;
        const DeviceTensor input(in + 50, 49);
        const DeviceTensor output(out + 50, 49);
        rank.run("mixed", rank.options(),
                 [&](core::ProcessSet& /*set*/, const rueda_options& o, core::Request& request) {
                     return core::make_allreduce(input.c(), output.c(), o, request);
                 });
        rank.allreduce("last", own, 50);
        RUEDA_RANK_CHECK(rank.get(out + 50, 49) == std::vector<float>(49, 2.0F));
        RUEDA_RANK_CHECK(rank.get(own, 1)[0] == (registers_first ? 4.0F : 2.0F));
        rank.meet("counted");
        RUEDA_RANK_CHECK(registrations.count() == (registers_first ? 2U : 0U));
        RUEDA_RANK_CHECK(ends.count() == registrations.count());
        rank.deallocate(own);
    });
}

TEST_CASE("ranks on several hosts use NCCL, and register no memory", "[memory]") {
    warm_up();
    const Calls registrations("ncclCommRegister");
    const Calls allreduces("ncclAllReduce");
    run_on_hosts("aab", [&](DeviceRank& rank) {
        float* const data = rank.allocate_with_rueda(std::vector<float>(100, 1.0F));
        rank.allreduce("gradient", data, 100);
        RUEDA_RANK_CHECK(rank.get(data, 100) == std::vector<float>(100, 3.0F));
        rank.meet("counted");
        RUEDA_RANK_CHECK(allreduces.count() == 3);
        RUEDA_RANK_CHECK(registrations.count() == 0);
        rank.deallocate(data);
    });
}

TEST_CASE("all operations take memory of Rueda", "[memory]") {
    begin_devices();
    const Calls registrations("ncclCommRegister");
    run_on_devices(3, [&](DeviceRank& rank) {
        const float own = 1.0F + static_cast<float>(rank.rank());
        float* const data = rank.allocate_with_rueda(std::vector<float>(90, own));
        float* const all = rank.allocate_with_rueda(std::vector<float>(90, 0.0F));
        const std::vector<int> ranks{0, 1, 2};
        const DeviceTensor input(data, 9);
        const DeviceTensor share(all, 3);
        const DeviceTensor whole(all, 27);
        rank.run("allgather", rank.options(), [&](core::ProcessSet& /*set*/, const rueda_options& o, core::Request& r) {
            return core::make_allgather(input.c(), &whole.c(), o, r);
        });
        RUEDA_RANK_CHECK(rank.get(all, 27)[8] == 1.0F && rank.get(all, 27)[18] == 3.0F);
        rank.run("reducescatter", rank.options(),
                 [&](core::ProcessSet& /*set*/, const rueda_options& o, core::Request& r) {
                     return core::make_reducescatter(input.c(), &share.c(), rank.rank(), 3, o, r);
                 });
        RUEDA_RANK_CHECK(rank.get(all, 3) == std::vector<float>(3, 6.0F));
        rank.run("reduce", rank.options(), [&](core::ProcessSet& /*set*/, const rueda_options& o, core::Request& r) {
            return core::make_reduce(input.c(), &input.c(), 1, ranks, rank.rank(), o, r);
        });
        RUEDA_RANK_CHECK(rank.get(data, 1)[0] == (rank.rank() == 1 ? 6.0F : own));
        rank.run("broadcast", rank.options(), [&](core::ProcessSet& /*set*/, const rueda_options& o, core::Request& r) {
            return core::make_broadcast(input.c(), input.c(), 1, ranks, rank.rank(), o, r);
        });
        RUEDA_RANK_CHECK(rank.get(data, 9) == std::vector<float>(9, 6.0F));
        const DeviceTensor received(all, 9);
        rank.run("alltoall", rank.options(), [&](core::ProcessSet& /*set*/, const rueda_options& o, core::Request& r) {
            return core::make_alltoall(input.c(), nullptr, 0, &received.c(), 3, o, r);
        });
        RUEDA_RANK_CHECK(rank.get(all, 9) == std::vector<float>(9, 6.0F));
        rank.meet("counted");
        RUEDA_RANK_CHECK(registrations.count() == 6);
        rank.deallocate(data);
        rank.deallocate(all);
    });
}

TEST_CASE("memory that is given back is freed after the operation that uses it", "[memory]") {
    warm_up();
    const std::size_t before = gpu::allocated_bytes();
    run_on_devices(2, [&](DeviceRank& rank) {
        float* const other = rank.put(std::array{1.0F});
        rank.connect_and_hold(/*device=*/0, other);
        const std::size_t held = gpu::allocated_bytes();
        rank.meet("allocates");
        float* const data = rank.allocate_with_rueda(std::vector<float>(1000, 1.0F));
        core::Completion completion;
        if (rank.rank() == 0) {
            // No other rank has called the operation, so the operation is not launched.
            rank.start_allreduce("gradient", data, 1000, completion).throw_if_failed();
            rank.deallocate(data);
        }
        rank.meet("given back");
        if (rank.rank() == 1) {
            rank.start_allreduce("gradient", data, 1000, completion).throw_if_failed();
            rank.wait_on_stream(completion).throw_if_failed();
            // The operation is now launched, but it cannot end, because the test holds device 0 back.
            rank.deallocate(data);
        }
        rank.meet("launched");
        RUEDA_RANK_CHECK(gpu::allocated_bytes() >= held + 8000);
        RUEDA_RANK_CHECK(!completion.done());
        rank.meet("looked");
        if (rank.rank() == 0) {
            gpu::release_device(0);
        }
        rank.runtime().wait(completion, 20).throw_if_failed();
    });
    CHECK(returns_to(before));
}

TEST_CASE("memory of Rueda outlives the job", "[memory]") {
    warm_up();
    const std::size_t before = gpu::allocated_bytes();
    std::array<float*, 2> left{};
    run_on_devices(2, [&](DeviceRank& rank) {
        float* const data = rank.allocate_with_rueda(std::array{1.0F});
        left.at(static_cast<std::size_t>(rank.rank())) = data;
        rank.allreduce("x", data, 1);
        rank.synchronize();
        rank.runtime().shutdown().throw_if_failed();
        rank.write(data, std::array{5.0F});
        RUEDA_RANK_CHECK(rank.get(data, 1)[0] == 5.0F);
    });
    for (float* const data : left) {
        CHECK(core::opened_devices()->deallocate(data));
        CHECK(!core::opened_devices()->deallocate(data));
    }
    CHECK(returns_to(before));
    CHECK(gpu::violations().empty());
}

TEST_CASE("memory is given back after an abort in the middle of an operation", "[memory]") {
    warm_up();
    const std::size_t before = gpu::allocated_bytes();
    run_on_devices(2, [&](DeviceRank& rank) {
        float* const data = rank.allocate_with_rueda(std::vector<float>(1000, 1.0F));
        rank.allreduce("x", data, 1000);
        rank.synchronize();
        rank.meet("connected");
        core::Completion completion;
        if (rank.rank() == 0) {
            gpu::hold_device(1);
        }
        rank.meet("held");
        rank.start_allreduce("x", data, 1000, completion).throw_if_failed();
        rank.wait_on_stream(completion).throw_if_failed();
        rank.meet("launched");
        if (rank.rank() == 0) {
            rank.runtime().abort("the test aborts");
        }
        rank.deallocate(data);
        RUEDA_RANK_CHECK(rank.runtime().wait(completion, 20).code() == ErrorCode::aborted);
        rank.meet("aborted");
        if (rank.rank() == 0) {
            gpu::release_device(1);
        }
        rank.meet("released");
    });
    // The abort of rank 1 waits for the device that is held back. If the abort takes longer than a second, the memory
    // is never freed.
    CHECK(returns_to(before + 4000));
    CHECK(gpu::violations().empty());
}

TEST_CASE("a path without NCCL needs no NCCL for memory", "[memory]") {
    warm_up();
    base::Config config = DeviceRank::settings();
    config.gpu_path = GENERATE(base::GpuPath::host, base::GpuPath::ipc);
    const Calls from_nccl("ncclMemAlloc");
    const Calls registrations("ncclCommRegister");
    run_on_devices(
        2,
        [](DeviceRank& rank) {
            float* const data = rank.allocate_with_rueda(std::array{1.0F, 2.0F});
            rank.allreduce("x", data, 2);
            RUEDA_RANK_CHECK((rank.get(data, 2) == std::vector<float>{2.0F, 4.0F}));
            rank.deallocate(data);
        },
        config);
    CHECK(from_nccl.count() == 0);
    CHECK(registrations.count() == 0);
}

TEST_CASE("ranks on one host stage tensors in resident memory", "[memory]") {
    warm_up();
    base::Config config = DeviceRank::settings();
    config.gpu_path = base::GpuPath::host;
    config.resident_limit_bytes = 64 * base::kMiB;
    const Calls pins("cuMemHostRegister");
    run_on_devices(
        3,
        [](DeviceRank& rank) {
            const float own = 1.0F + static_cast<float>(rank.rank());
            float* const large = rank.put(std::vector<float>(3'000'000, own));  // three pieces
            rank.allreduce("large", large, 3'000'000);
            RUEDA_RANK_CHECK(rank.get(large, 3'000'000) == std::vector<float>(3'000'000, 6.0F));
            float* const data = rank.put(std::vector<float>(100, own));
            rank.allreduce("data", data, 100, ReduceOp::average);
            RUEDA_RANK_CHECK(rank.get(data, 100) == std::vector<float>(100, 2.0F));
            core::Completion joined;
            if (rank.rank() != 1) {
                rank.allreduce("data", data, 100);
                RUEDA_RANK_CHECK(rank.get(data, 100) == std::vector<float>(100, 4.0F));
            }
            rank.runtime().start_join(joined, /*counted=*/true).throw_if_failed();
            rank.runtime().wait(joined, 20).throw_if_failed();
        },
        config);
    CHECK(pins.count() == 3);
}

TEST_CASE("the driver allocates memory if NCCL cannot, and an error says how much was wanted", "[memory]") {
    warm_up();
    run_on_devices(1, [](DeviceRank& rank) {
        const Calls registrations("ncclCommRegister");
        gpu::fail_call("ncclMemAlloc", 1, collectives::cuda::kNcclUnhandledCudaError);
        float* const data = rank.allocate_with_rueda(std::array{3.0F});
        rank.allreduce("x", data, 1);
        RUEDA_RANK_CHECK(rank.get(data, 1)[0] == 3.0F);
        RUEDA_RANK_CHECK(registrations.count() == 0);
        rank.deallocate(data);
        gpu::fail_call("cuMemAlloc", 1, collectives::cuda::kCudaOutOfMemory);
        gpu::fail_call("ncclMemAlloc", 1, collectives::cuda::kNcclUnhandledCudaError);
        const Status status = rank.runtime().allocate_on_device(0, 12345).status();
        RUEDA_RANK_CHECK(status.code() == ErrorCode::resource_exhausted);
        RUEDA_RANK_CHECK(status.message().find("12345 bytes of memory of GPU 0 could not be allocated") == 0);
    });
}

TEST_CASE("a joined rank ends the registrations of its set", "[memory]") {
    warm_up();
    const Calls registrations("ncclCommRegister");
    const Calls ends("ncclCommDeregister");
    run_on_devices(2, [&](DeviceRank& rank) {
        float* const data = rank.allocate_with_rueda(std::array{1.0F});
        rank.allreduce("x", data, 1);
        core::Completion joined;
        if (rank.rank() == 1) {
            rank.runtime().start_join(joined, /*counted=*/true).throw_if_failed();
        } else {
            rank.allreduce("x", data, 1);
            RUEDA_RANK_CHECK(rank.get(data, 1)[0] == 2.0F);
            rank.runtime().start_join(joined, /*counted=*/true).throw_if_failed();
        }
        rank.runtime().wait(joined, 20).throw_if_failed();
        rank.synchronize();
        rank.meet("counted");
        RUEDA_RANK_CHECK(registrations.count() == 2);
        RUEDA_RANK_CHECK(ends.count() == 2);
        rank.deallocate(data);
    });
}

}  // namespace
}  // namespace rueda::tests
