// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <atomic>

#include "tests/gpu_stand_in/fixture.hpp"

using namespace rueda::tests::gpu;

TEST_CASE("Work of one stream runs in order, and a synchronisation waits for it", "[unit]") {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        reset(seed, 2);
        const OnDevice device(1);
        const CudaStream stream = make_stream();
        const DeviceAddress memory = allocate(64);
        fill(memory, 1, 64, stream);
        fill(memory, 2, 32, stream);
        CHECK(outstanding() > 0);
        synchronize(stream);
        CHECK(byte_at(memory + 31) == 2);
        CHECK(byte_at(memory + 32) == 1);
        REQUIRE(cuda().memory_free(memory) == kCudaSuccess);
        CHECK(violations().empty());
        CHECK(allocated_bytes() == 0);
    }
}

TEST_CASE("Streams that nothing orders run in either order", "[unit]") {
    int second_was_last = 0;
    constexpr int kSeeds = 40;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
        reset(seed, 1);
        const OnDevice device(0);
        const CudaStream first = make_stream();
        const CudaStream second = make_stream();
        const DeviceAddress memory = allocate(4);
        fill(memory, 1, 4, first);
        fill(memory, 2, 4, second);
        settle();
        second_was_last += *static_cast<char*>(pointer(memory)) == 2 ? 1 : 0;
        CHECK(has_violation("Race: cuMemsetD8Async"));
    }
    CHECK(second_was_last > 0);
    CHECK(second_was_last < kSeeds);
}

TEST_CASE("The legacy default stream is ordered with blocking streams, in both directions", "[unit]") {
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        for (const unsigned flags : {0U, kStreamNonBlocking}) {
            reset(seed, 1);
            const OnDevice device(0);
            const CudaStream stream = make_stream(flags);
            const DeviceAddress memory = allocate(4);
            fill(memory, 1, 4, stream);
            fill(memory, 2, 4, nullptr);
            fill(memory, 3, 4, stream);
            synchronize(stream);
            synchronize(nullptr);
            CHECK(violations().empty() == (flags == 0));
            if (flags == 0) {
                CHECK(byte_at(memory) == 3);
            }
        }
    }
}

TEST_CASE("Two blocking streams are not ordered with each other", "[unit]") {
    reset(3, 1);
    const OnDevice device(0);
    const CudaStream first = make_stream(0);
    const CudaStream second = make_stream(0);
    const DeviceAddress memory = allocate(4);
    fill(memory, 1, 4, first);
    fill(memory, 2, 4, second);
    CHECK(has_violation("Race"));
}

TEST_CASE("A synchronisation of the default stream waits for blocking streams only", "[unit]") {
    reset(3, 1);
    const OnDevice device(0);
    const CudaStream blocking = make_stream(0);
    const CudaStream other = make_stream();
    const DeviceAddress memory = allocate(8);
    fill(memory, 1, 4, blocking);
    fill(memory + 4, 1, 4, other);
    synchronize(nullptr);
    CHECK(byte_at(memory) == 1);
    CHECK(violations().empty());
    (void)byte_at(memory + 4);
    CHECK(has_violation("the host program reads bytes 4 to 5"));
}

TEST_CASE("A query says whether the stream has work, and orders the host program only if it has none", "[unit]") {
    reset(1, 1);
    const OnDevice device(0);
    const CudaStream stream = make_stream();
    const DeviceAddress memory = allocate(4);
    hold_device(0);
    fill(memory, 7, 4, stream);
    CHECK(cuda().stream_query(stream) == kCudaNotReady);
    release_device(0);
    settle();
    CHECK(cuda().stream_query(stream) == kCudaSuccess);
    CHECK(byte_at(memory) == 7);
    CHECK(violations().empty());
}

TEST_CASE("A destroyed stream still does its work, and cannot be used", "[unit]") {
    reset(1, 1);
    const OnDevice device(0);
    const CudaStream stream = make_stream();
    const CudaEvent event = make_event();
    const DeviceAddress memory = allocate(4);
    fill(memory, 5, 4, stream);
    record(event, stream);
    CHECK(live_streams() == 1);
    REQUIRE(cuda().stream_destroy(stream) == kCudaSuccess);
    CHECK(live_streams() == 0);
    CHECK(cuda().event_synchronize(event) == kCudaSuccess);
    CHECK(byte_at(memory) == 5);
    CHECK(violations().empty());
    CHECK(cuda().event_record(event, stream) == kCudaInvalidHandle);
    CHECK(has_violation("the stream does not exist"));
}

namespace {

std::atomic<int> host_function_result{-1};  // relaxed: the test synchronises with the stream before it reads the value

void call_the_driver(void* event) {
    host_function_result.store(cuda().event_query(static_cast<CudaEvent>(event)), std::memory_order_relaxed);
}
void store_five(void* target) { *static_cast<int*>(target) = 5; }

}  // namespace

TEST_CASE("A host function runs after the work before it", "[unit]") {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        reset(seed, 1);
        const OnDevice device(0);
        const CudaStream stream = make_stream();
        int value = 0;
        fill(allocate(4), 1, 4, stream);
        REQUIRE(cuda().launch_host_function(stream, store_five, &value) == kCudaSuccess);
        synchronize(stream);
        CHECK(value == 5);
        CHECK(violations().empty());
    }
}

TEST_CASE("A host function that calls the driver is reported", "[unit]") {
    reset(1, 1);
    const OnDevice device(0);
    const CudaStream stream = make_stream();
    REQUIRE(cuda().launch_host_function(stream, call_the_driver, make_event()) == kCudaSuccess);
    synchronize(stream);
    CHECK(host_function_result.load(std::memory_order_relaxed) == kCudaNotPermitted);
    CHECK(has_violation("cuEventQuery was called by a host function"));
}

TEST_CASE("Only operations whose label contains the text are delayed", "[unit]") {
    using namespace std::chrono_literals;
    reset(1, 1);
    const OnDevice device(0);
    delay_operations("cuMemset", 20ms);
    const CudaStream stream = make_stream();
    const auto begin = std::chrono::steady_clock::now();
    fill(allocate(4), 1, 4, stream);
    synchronize(stream);
    CHECK(std::chrono::steady_clock::now() - begin >= 20ms);
    CHECK(host_waits() == 1);
}
