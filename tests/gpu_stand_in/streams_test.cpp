// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/gpu_stand_in/fixture.hpp"

using namespace rueda::tests::gpu;

TEST_CASE("Work of one stream runs in order, and a synchronisation waits for it", "[unit]") {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        reset(seed, 2);
        const OnDevice device(1);
        const CudaStream stream = make_stream();
        const DeviceAddress memory = allocate(64);
        REQUIRE(cuda().fill_async(memory, 1, 64, stream) == kCudaSuccess);
        REQUIRE(cuda().fill_async(memory, 2, 32, stream) == kCudaSuccess);
        REQUIRE(cuda().stream_synchronize(stream) == kCudaSuccess);
        host_access(memory, 64, false);
        CHECK(static_cast<char*>(pointer(memory))[31] == 2);
        CHECK(static_cast<char*>(pointer(memory))[32] == 1);
        REQUIRE(cuda().memory_free(memory) == kCudaSuccess);
        CHECK(violations().empty());
    }
}

TEST_CASE("A wait for an event orders two streams", "[unit]") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        for (const bool with_wait : {true, false}) {
            reset(seed, 1);
            const OnDevice device(0);
            const CudaStream first = make_stream();
            const CudaStream second = make_stream();
            const CudaEvent event = make_event();
            const DeviceAddress from = upload(std::vector<int>{1, 2, 3}, first);
            const DeviceAddress to = allocate(12);
            REQUIRE(cuda().event_record(event, first) == kCudaSuccess);
            if (with_wait) {
                REQUIRE(cuda().stream_wait_event(second, event, 0) == kCudaSuccess);
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
