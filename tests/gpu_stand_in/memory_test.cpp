// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/gpu_stand_in/fixture.hpp"

using namespace rueda::tests::gpu;

TEST_CASE("Memory that is freed while a stream uses it is reported", "[unit]") {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        for (const bool synchronised : {true, false}) {
            reset(seed, 1);
            const OnDevice device(0);
            const CudaStream stream = make_stream();
            const DeviceAddress memory = allocate(16);
            fill(memory, 1, 16, stream);
            if (synchronised) {
                synchronize(stream);
            }
            // The stand-in's cuMemFree() waits for the device. The real cuMemFree() may do this, too, but a program
            // must not rely on it.
            CHECK(cuda().memory_free(memory) == kCudaSuccess);
            CHECK(outstanding() == 0);
            CHECK(violations().empty() == synchronised);
            CHECK(has_violation("cuMemFree by the host writes") != synchronised);
        }
    }
}

TEST_CASE("Use after free is reported, and breaks the device", "[unit]") {
    reset(1, 1);
    const OnDevice device(0);
    const CudaStream stream = make_stream();
    const DeviceAddress memory = allocate(16);
    REQUIRE(cuda().memory_free(memory) == kCudaSuccess);
    fill(memory, 1, 16, stream);
    CHECK(cuda().stream_synchronize(stream) == kCudaIllegalAddress);
    CHECK(has_violation("after the memory was freed"));
    CHECK(cuda().memory_free(memory) == kCudaIllegalAddress);
}

TEST_CASE("Memory is freed twice, or in its middle", "[unit]") {
    reset(1, 1);
    const OnDevice device(0);
    const DeviceAddress memory = allocate(16);
    CHECK(cuda().memory_free(memory + 8) == kCudaInvalidValue);
    CHECK(cuda().memory_free(memory) == kCudaSuccess);
    CHECK(cuda().memory_free(memory) == kCudaInvalidValue);
    CHECK(violations().size() == 2);
    CHECK(has_violation("is already free"));
    CHECK(cuda().memory_free(0) == kCudaSuccess);
}

TEST_CASE("An access beyond the end is reported", "[unit]") {
    reset(1, 1);
    const OnDevice device(0);
    const CudaStream stream = make_stream();
    fill(allocate(16), 1, 17, stream);
    CHECK(cuda().stream_synchronize(stream) == kCudaIllegalAddress);
    CHECK(has_violation("beyond its end"));
}

TEST_CASE("Pageable memory is read during the call", "[unit]") {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        reset(seed, 1);
        const OnDevice device(0);
        const CudaStream stream = make_stream();
        hold_device(0);
        DeviceAddress memory = 0;
        {
            std::vector<int> values{1, 2, 3};
            memory = upload(values, stream);
            values.assign(3, 0);
        }
        release_device(0);
        CHECK(download<int>(memory, 3, stream) == std::vector<int>{1, 2, 3});
        CHECK(host_waits() == 1);  // the copy to pageable memory
        CHECK(violations().empty());
    }
}

TEST_CASE("Pinned memory is read when the copy runs, so it must not change before", "[unit]") {
    reset(1, 1);
    const OnDevice device(0);
    const CudaStream stream = make_stream();
    void* pinned = nullptr;
    REQUIRE(cuda().host_allocate(&pinned, 16, kHostPortable) == kCudaSuccess);
    host_access(pinned, 16, true);
    std::memset(pinned, 1, 16);
    const DeviceAddress memory = allocate(16);
    REQUIRE(cuda().copy_async(memory, address_of(pinned), 16, stream) == kCudaSuccess);
    synchronize(stream);
    host_access(pinned, 16, true);
    CHECK(violations().empty());
    REQUIRE(cuda().copy_async(memory, address_of(pinned), 16, stream) == kCudaSuccess);
    host_access(pinned, 16, true);
    CHECK(has_violation("Race"));
    clear_violations();
    synchronize(stream);
    CHECK(cuda().host_free(pinned) == kCudaSuccess);
    CHECK(violations().empty());
}

TEST_CASE("Pointers know their device and their kind", "[unit]") {
    reset(1, 2);
    const OnDevice device(1);
    const DeviceAddress memory = allocate(100);
    unsigned kind = 0;
    int ordinal = -1;
    CHECK(cuda().pointer_get_attribute(&kind, kPointerMemoryType, memory + 99) == kCudaSuccess);
    CHECK(kind == kMemoryTypeDevice);
    CHECK(cuda().pointer_get_attribute(&ordinal, kPointerDeviceOrdinal, memory) == kCudaSuccess);
    CHECK(ordinal == 1);
    CHECK(cuda().pointer_get_attribute(&kind, kPointerMemoryType, memory + 100) == kCudaInvalidValue);
    CHECK(cuda().pointer_get_attribute(&kind, kPointerMemoryType, address_of(&kind)) == kCudaInvalidValue);
    void* pinned = nullptr;
    REQUIRE(cuda().host_allocate(&pinned, 16, 0) == kCudaSuccess);
    CHECK(cuda().pointer_get_attribute(&kind, kPointerMemoryType, address_of(pinned)) == kCudaSuccess);
    CHECK(kind == kMemoryTypeHost);
    DeviceAddress base = 0;
    std::size_t bytes = 0;
    CHECK(cuda().memory_get_range(&base, &bytes, memory + 50) == kCudaSuccess);
    CHECK(base == memory);
    CHECK(bytes == 100);
    CHECK(cuda().memory_get_range(&base, &bytes, address_of(&kind)) == kCudaNotFound);
}

TEST_CASE("Memory of another device needs peer access, except for copies", "[unit]") {
    reset(1, 2);
    const OnDevice device(0);
    const DeviceAddress memory = allocate(16);
    const OnDevice other(1);
    const CudaStream stream = make_stream();
    REQUIRE(cuda().copy_async(allocate(16), memory, 16, stream) == kCudaSuccess);
    synchronize(stream);
    CHECK(violations().empty());
    fill(memory, 1, 16, stream);
    CHECK(cuda().stream_synchronize(stream) == kCudaIllegalAddress);
    CHECK(has_violation("memory of device 0, without peer access"));
}

TEST_CASE("Reads do not race with each other, and parts of memory are independent", "[unit]") {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        reset(seed, 1);
        const OnDevice device(0);
        const CudaStream first = make_stream();
        const CudaStream second = make_stream();
        const DeviceAddress source = upload(std::vector<char>(16, 'a'), first);
        synchronize(first);
        const DeviceAddress target = allocate(32);
        REQUIRE(cuda().copy_async(target, source, 16, first) == kCudaSuccess);
        REQUIRE(cuda().copy_async(target + 16, source, 16, second) == kCudaSuccess);
        CHECK(violations().empty());
        REQUIRE(cuda().copy_async(target + 15, source, 1, second) == kCudaSuccess);
        CHECK(has_violation("Race"));
    }
}

TEST_CASE("New memory has no useful contents", "[unit]") {
    reset(1, 1);
    const OnDevice device(0);
    CHECK(byte_at(allocate(8)) == 0xCD);
}

TEST_CASE("Allocations and copies from pageable memory wait if the test wants", "[unit]") {
    reset(1, 1);
    const OnDevice device(0);
    const CudaStream stream = make_stream();
    const DeviceAddress memory = allocate(16);
    const auto waits_of = [&](const std::function<void()>& action) {
        const std::size_t before = host_waits();
        fill(memory, 1, 16, stream);
        action();
        const std::size_t waits = host_waits() - before;
        synchronize(stream);
        return waits;
    };
    const auto allocate_more = [] { (void)allocate(16); };
    const auto copy = [&] { (void)upload(std::vector<int>{1}, stream); };
    CHECK(waits_of(allocate_more) == 0);
    CHECK(waits_of(copy) == 0);
    delay_operations("cuMemset", std::chrono::milliseconds(2));
    set_allocations_wait(true);
    CHECK(waits_of(allocate_more) == 1);
    set_allocations_wait(false);
    set_pageable_copies_wait(true);
    CHECK(waits_of(copy) == 1);
    CHECK(violations().empty());
}
