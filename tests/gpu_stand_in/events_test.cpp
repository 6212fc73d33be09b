// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/gpu_stand_in/fixture.hpp"

using namespace rueda::tests::gpu;

TEST_CASE("A wait for an event orders two streams, and a missing wait is found", "[unit]") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        for (const bool with_wait : {true, false}) {
            reset(seed, 1);
            const OnDevice device(0);
            const CudaStream first = make_stream();
            const CudaStream second = make_stream();
            const CudaEvent event = make_event();
            const DeviceAddress from = upload(std::vector<int>{1, 2, 3}, first);
            const DeviceAddress to = allocate(12);
            record(event, first);
            if (with_wait) {
                wait_for(second, event);
            }
            REQUIRE(cuda().copy_async(to, from, 12, second) == kCudaSuccess);
            const auto result = download<int>(to, 3, second);
            CHECK(violations().empty() == with_wait);
            CHECK(has_violation("Race") != with_wait);
            if (with_wait) {
                CHECK(result == std::vector<int>{1, 2, 3});
            }
        }
    }
}

TEST_CASE("The report of a race names both operations, their streams and the missing event", "[unit]") {
    reset(4, 1);
    const OnDevice device(0);
    const DeviceAddress memory = allocate(16);
    const CudaStream first = make_stream();
    const CudaStream second = make_stream();
    fill(memory, 1, 16, first);
    settle();
    fill(memory + 8, 1, 4, second);
    const auto found = violations();
    REQUIRE(found.size() == 1);
    CHECK(
        found[0] ==
        "Race: cuMemsetD8Async in stream 3 of device 0 writes bytes 8 to 12 of allocation 1 (16 bytes), and "
        "cuMemsetD8Async in stream 2 of device 0 writes it, but nothing orders the two. An event is missing: record it "
        "after the first of them, and let the stream or the host of the second wait for it.");
}

TEST_CASE("The wrong stream waits", "[unit]") {
    reset(4, 1);
    const OnDevice device(0);
    const DeviceAddress memory = allocate(16);
    const CudaStream first = make_stream();
    const CudaStream second = make_stream();
    const CudaStream wrong = make_stream();
    const CudaEvent event = make_event();
    fill(memory, 1, 16, first);
    record(event, first);
    wait_for(wrong, event);
    fill(memory, 2, 16, second);
    CHECK(has_violation("Race"));
}

TEST_CASE("An event that was recorded too early does not order the later work", "[unit]") {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        reset(seed, 1);
        const OnDevice device(0);
        const DeviceAddress memory = allocate(16);
        const CudaStream first = make_stream();
        const CudaStream second = make_stream();
        const CudaEvent event = make_event();
        record(event, first);
        fill(memory, 1, 16, first);
        wait_for(second, event);
        fill(memory, 2, 16, second);
        CHECK(has_violation("Race"));
    }
}

TEST_CASE("An event that was never recorded is done, so a wait for it orders nothing", "[unit]") {
    reset(4, 1);
    const OnDevice device(0);
    const CudaEvent event = make_event();
    CHECK(cuda().event_query(event) == kCudaSuccess);
    CHECK(cuda().event_synchronize(event) == kCudaSuccess);
    const DeviceAddress memory = allocate(16);
    const CudaStream first = make_stream();
    const CudaStream second = make_stream();
    fill(memory, 1, 16, first);
    wait_for(second, event);
    fill(memory, 2, 16, second);
    CHECK(has_violation("Race"));
}

TEST_CASE("Recording again does not change earlier waits", "[unit]") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        reset(seed, 1);
        const OnDevice device(0);
        const DeviceAddress memory = allocate(16);
        const CudaStream first = make_stream();
        const CudaStream second = make_stream();
        const CudaStream third = make_stream();
        const CudaEvent event = make_event();
        hold_device(0);
        fill(memory, 1, 16, first);
        record(event, first);
        wait_for(second, event);
        record(event, third);  // the second recording must not affect the wait of the second stream
        fill(memory, 2, 16, second);
        release_device(0);
        synchronize(second);
        CHECK(byte_at(memory) == 2);
        CHECK(violations().empty());
    }
}

TEST_CASE("A wait sees the last record before the wait, not the first", "[unit]") {
    reset(5, 1);
    const OnDevice device(0);
    const DeviceAddress memory = allocate(16);
    const CudaStream first = make_stream();
    const CudaStream second = make_stream();
    const CudaEvent event = make_event();
    fill(memory, 1, 16, first);
    record(event, first);
    record(event, second);  // the first record is lost
    const CudaStream third = make_stream();
    wait_for(third, event);
    fill(memory, 2, 16, third);
    CHECK(has_violation("Race"));
}

TEST_CASE("A query gives not ready, and orders the host program when it succeeds", "[unit]") {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        reset(seed, 1);
        const OnDevice device(0);
        const DeviceAddress memory = allocate(16);
        const CudaStream stream = make_stream();
        const CudaEvent event = make_event();
        hold_device(0);
        fill(memory, 6, 16, stream);
        record(event, stream);
        CHECK(cuda().event_query(event) == kCudaNotReady);
        release_device(0);
        while (cuda().event_query(event) == kCudaNotReady) {
            std::this_thread::yield();
        }
        CHECK(byte_at(memory) == 6);
        CHECK(violations().empty());
    }
}

TEST_CASE("The host program reads before the event", "[unit]") {
    reset(5, 1);
    const OnDevice device(0);
    const DeviceAddress memory = allocate(16);
    const CudaStream stream = make_stream();
    fill(memory, 6, 16, stream);
    settle();  // the work ends now, but the program has not waited for it
    (void)byte_at(memory);
    CHECK(has_violation("the host program reads bytes 0 to 1"));
}

TEST_CASE("Order is transitive over streams and devices", "[unit]") {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        reset(seed, 2);
        const OnDevice device(0);
        const DeviceAddress memory = allocate(16);
        const CudaStream first = make_stream();
        const CudaEvent after_first = make_event();
        fill(memory, 1, 16, first);
        record(after_first, first);
        {
            const OnDevice other(1);
            const CudaStream second = make_stream();
            const CudaEvent after_second = make_event();
            const DeviceAddress copy = allocate(16);
            wait_for(second, after_first);
            REQUIRE(cuda().copy_async(copy, memory, 16, second) == kCudaSuccess);
            record(after_second, second);
            const OnDevice again(0);
            const CudaStream third = make_stream();
            wait_for(third, after_second);
            fill(memory, 2, 16, third);
            CHECK(download<unsigned char>(copy, 1, third)[0] == 1);
        }
        CHECK(violations().empty());
    }
}

TEST_CASE("An event and its stream must be of one device", "[unit]") {
    reset(5, 2);
    const OnDevice device(0);
    const CudaEvent event = make_event();
    const OnDevice other(1);
    CHECK(cuda().event_record(event, make_stream()) == kCudaInvalidHandle);
    CHECK(has_violation("the event is of device 0, and the stream is of device 1"));
}

TEST_CASE("Elapsed time needs two events with times that are done", "[unit]") {
    using namespace std::chrono_literals;
    reset(5, 1);
    const OnDevice device(0);
    const CudaStream stream = make_stream();
    const CudaEvent start = make_event(0);
    const CudaEvent end = make_event(0);
    float milliseconds = -1;
    CHECK(cuda().event_elapsed_time(&milliseconds, start, end) == kCudaInvalidHandle);
    delay_operations("cuMemset", 5ms);
    record(start, stream);
    fill(allocate(4), 0, 4, stream);
    record(end, stream);
    CHECK(cuda().event_elapsed_time(&milliseconds, start, end) == kCudaNotReady);
    synchronize(stream);
    CHECK(cuda().event_elapsed_time(&milliseconds, start, end) == kCudaSuccess);
    CHECK(milliseconds >= 5);
    const CudaEvent without_time = make_event();
    record(without_time, stream);
    synchronize(stream);
    CHECK(cuda().event_elapsed_time(&milliseconds, start, without_time) == kCudaInvalidHandle);
}

TEST_CASE("A destroyed event cannot be used, but a wait for it remains", "[unit]") {
    reset(5, 1);
    const OnDevice device(0);
    const DeviceAddress memory = allocate(16);
    const CudaStream first = make_stream();
    const CudaStream second = make_stream();
    const CudaEvent event = make_event();
    fill(memory, 1, 16, first);
    record(event, first);
    wait_for(second, event);
    REQUIRE(cuda().event_destroy(event) == kCudaSuccess);
    CHECK(live_events() == 0);
    fill(memory, 2, 16, second);
    CHECK(violations().empty());
    CHECK(cuda().event_query(event) == kCudaInvalidHandle);
    CHECK(has_violation("the event does not exist"));
}
