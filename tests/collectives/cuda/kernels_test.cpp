// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests how the device kernels are loaded and launched, on the stand-in for the driver.
#include "collectives/cuda/kernels.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/cuda/cuda_device.hpp"
#include "ops/cuda/host_kernels.hpp"
#include "tests/support/gpu_kernels.hpp"
#include "tests/support/gpu_stand_in/api.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

using namespace collectives::cuda;  // NOLINT(google-build-using-namespace): this test uses most of it

/// A device of the stand-in, and the lines that the loading of its kernels wrote to the log.
struct KernelFixture {
    explicit KernelFixture(std::string_view image = gpu::kKernelImage) {
        gpu::reset(Catch::rngSeed(), 1);
        gpu::register_kernels();
        REQUIRE(api.init(0) == kCudaSuccess);
        auto opened = Device::open(api, 0, image);
        REQUIRE(opened.is_ok());
        device = opened.value();
        auto made = device->stream();
        REQUIRE(made.is_ok());
        stream = made.value();
    }
    [[nodiscard]] const Status& load() {
        return device->kernels().load([this](const std::string& text) { notes.push_back(text); });
    }
    [[nodiscard]] std::byte* allocate(std::size_t bytes) {
        const ContextScope scope(api, device->context());
        DeviceAddress address = 0;
        REQUIRE(api.memory_allocate(&address, bytes) == kCudaSuccess);
        return std::bit_cast<std::byte*>(static_cast<std::uintptr_t>(address));
    }
    void synchronize() {
        const ContextScope scope(api, device->context());
        REQUIRE(api.stream_synchronize(stream) == kCudaSuccess);
    }
    [[nodiscard]] Status copy(std::byte* to, const std::byte* from, std::size_t bytes, CudaStream in) {
        const ops::cuda::BatchItem item{from, to, bytes};
        return device->kernels().launch(ops::cuda::batch_launch({.from = DType::uint8, .to = DType::uint8}, {&item, 1}),
                                        in);
    }

    CudaApi api = gpu::open_cuda();
    std::shared_ptr<Device> device;
    CudaStream stream = nullptr;
    std::vector<std::string> notes;
};

bool has(const std::string& text, const std::string& part) {
    INFO(text);
    return text.find(part) != std::string::npos;
}

TEST_CASE("threads that need the kernels at once load them once", "[gpu]") {
    KernelFixture fixture;
    std::atomic<int> loaded{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
        threads.emplace_back([&] {
            // Relaxed: join() below orders the additions before the check.
            loaded.fetch_add(fixture.device->kernels().load().is_ok() ? 1 : 0, std::memory_order_relaxed);
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(loaded.load(std::memory_order_relaxed) == 8);
    CHECK(gpu::calls("cuModuleLoadData") == 1);
    CHECK(fixture.load().is_ok());
    CHECK(fixture.notes.empty());
    CHECK(gpu::calls("cuModuleGetFunction") == ops::cuda::host_kernels().size());
}

TEST_CASE("a kernel does its work in the order of the stream", "[gpu]") {
    KernelFixture fixture;
    std::byte* const from = fixture.allocate(1000);
    std::byte* const to = fixture.allocate(1000);
    {
        const ContextScope scope(fixture.api, fixture.device->context());
        REQUIRE(fixture.api.fill_async(std::bit_cast<DeviceAddress>(from), 0x5a, 1000, fixture.stream) == kCudaSuccess);
    }
    CHECK(fixture.copy(to + 3, from + 1, 700, fixture.stream).is_ok());
    CHECK(fixture.device->kernels().launch(ops::cuda::zero_launch(from, 1000), fixture.stream).is_ok());
    fixture.synchronize();
    gpu::host_access(std::bit_cast<DeviceAddress>(to), 1000, false);
    gpu::host_access(std::bit_cast<DeviceAddress>(from), 1000, false);
    CHECK(to[3] == std::byte{0x5a});
    CHECK(to[702] == std::byte{0x5a});
    CHECK(from[0] == std::byte{0});
    CHECK(from[999] == std::byte{0});
    CHECK(gpu::violations().empty());
}

TEST_CASE("the stand-in finds races with the memory of a kernel", "[gpu]") {
    KernelFixture fixture;
    std::byte* const from = fixture.allocate(1000);
    std::byte* const to = fixture.allocate(1000);
    CudaStream other = nullptr;
    {
        const ContextScope scope(fixture.api, fixture.device->context());
        REQUIRE(fixture.api.stream_create_with_priority(&other, kStreamNonBlocking, 0) == kCudaSuccess);
    }
    CHECK(fixture.copy(to, from, 500, fixture.stream).is_ok());
    CHECK(fixture.copy(to + 500, from, 500, other).is_ok());
    CHECK(gpu::violations().empty());  // the two kernels read the same memory but write to different memory
    CHECK(fixture.copy(to, from, 501, other).is_ok());
    CHECK(fixture.copy(from, to, 1, fixture.stream).is_ok());
    CHECK_FALSE(gpu::violations().empty());
}

TEST_CASE("kernels that the driver refuses are noted once, and every call has the reason", "[gpu]") {
    KernelFixture fixture;
    gpu::fail_call("cuModuleLoadData", 1, kCudaNoBinaryForDevice);
    CHECK(fixture.load().code() == ErrorCode::unsupported);
    CHECK(has(fixture.load().message(), "cuModuleLoadData of Rueda's kernels failed on GPU 0: "));
    REQUIRE(fixture.notes.size() == 1);
    CHECK(has(fixture.notes[0], "go on without Rueda's kernels"));
    std::byte* const memory = fixture.allocate(100);
    CHECK(fixture.copy(memory, memory + 50, 50, fixture.stream).code() == ErrorCode::unsupported);
    CHECK(gpu::calls("cuModuleLoadData") == 1);
    CHECK(gpu::calls("cuLaunchKernel") == 0);
}

TEST_CASE("an image that lacks a kernel, and a build without kernels, say so", "[gpu]") {
    KernelFixture fixture;
    gpu::fail_call("cuModuleGetFunction", 2, kCudaNotFound);
    CHECK(has(fixture.load().message(), "cuModuleGetFunction of rueda_fill failed on GPU 0"));
    KernelFixture none("");
    CHECK(none.load().code() == ErrorCode::unsupported);
    CHECK(has(none.load().message(), "neither nvcc nor clang was found"));
    CHECK(none.notes.size() == 1);
    CHECK(gpu::calls("cuModuleLoadData") == 0);
}

TEST_CASE("a launch that fails names the kernel", "[gpu]") {
    KernelFixture fixture;
    CHECK(fixture.load().is_ok());
    std::byte* const memory = fixture.allocate(100);
    gpu::fail_call("cuLaunchKernel", 1, kCudaLaunchFailed);
    const Status failed = fixture.copy(memory, memory + 50, 50, fixture.stream);
    CHECK(failed.code() == ErrorCode::aborted);
    CHECK(has(failed.message(), "cuLaunchKernel of rueda_copy failed on GPU 0"));
}

TEST_CASE("loading and launching do not disturb the capture of another thread", "[gpu]") {
    KernelFixture fixture;
    CudaStream captured = nullptr;
    {
        const ContextScope scope(fixture.api, fixture.device->context());
        REQUIRE(fixture.api.stream_create_with_priority(&captured, kStreamNonBlocking, 0) == kCudaSuccess);
        REQUIRE(gpu::begin_capture(captured, kCaptureModeGlobal) == kCudaSuccess);
    }
    std::byte* const memory = [&] {
        const RelaxedCapture relaxed(fixture.api);
        return fixture.allocate(100);
    }();
    std::thread other([&] { CHECK(fixture.copy(memory, memory + 50, 50, fixture.stream).is_ok()); });
    other.join();
    const ContextScope scope(fixture.api, fixture.device->context());
    CHECK(gpu::end_capture(captured) == kCudaSuccess);
}

TEST_CASE("the program's context stays current", "[gpu]") {
    KernelFixture fixture;
    CudaContext current = nullptr;
    REQUIRE(fixture.api.context_get_current(&current) == kCudaSuccess);
    CHECK(fixture.load().is_ok());
    CudaContext after = nullptr;
    REQUIRE(fixture.api.context_get_current(&after) == kCudaSuccess);
    CHECK(after == current);
}

}  // namespace
}  // namespace rueda::tests
