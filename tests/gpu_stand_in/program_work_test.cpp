// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/gpu_stand_in/program_work.hpp"

#include <array>

#include "tests/gpu_stand_in/fixture.hpp"

using namespace rueda::tests::gpu;

namespace {

/// Executes work of the program that adds 1 to a byte.
void add_one(CudaStream stream, DeviceAddress address) {
    const std::array<Range, 2> ranges{Range{.address = address, .bytes = 1, .write = false},
                                      Range{.address = address, .bytes = 1, .write = true}};
    void* work = gpu_stand_in_begin_work(stream, "add one", ranges.data(), ranges.size());
    MUST(work != nullptr);
    ++*static_cast<unsigned char*>(pointer(address));
    gpu_stand_in_end_work(work);
}

std::string taken_violations() {
    std::array<char, 1000> text{};
    (void)gpu_stand_in_take_violations(text.data(), text.size());
    return text.data();
}

}  // namespace

TEST_CASE("Work of the program has its place in its stream", "[unit]") {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        reset(seed, 1);
        const OnDevice device(0);
        const CudaStream stream = make_stream();
        const DeviceAddress memory = allocate(4);
        fill(memory, 1, 4, stream);
        add_one(stream, memory);
        add_one(stream, memory);
        CHECK(download<unsigned char>(memory, 2, stream) == std::vector<unsigned char>{3, 1});
        CHECK(taken_violations().empty());
    }
}

TEST_CASE("Work of the program holds back the later work of its stream", "[unit]") {
    reset(1, 1);
    const OnDevice device(0);
    const CudaStream stream = make_stream();
    const CudaEvent event = make_event();
    void* work = gpu_stand_in_begin_work(stream, "nothing", nullptr, 0);
    REQUIRE(work != nullptr);
    record(event, stream);
    const CudaStream other = make_stream();
    const DeviceAddress memory = allocate(4);
    for (int i = 0; i < 20; ++i) {  // the device picks a stream at random, so in 20 turns it tries both
        fill(memory, 1, 4, other);
    }
    synchronize(other);
    CHECK(cuda().event_query(event) == kCudaNotReady);
    gpu_stand_in_end_work(work);
    synchronize(stream);
    CHECK(cuda().event_query(event) == kCudaSuccess);
}

TEST_CASE("Work of the program races with work that no event orders", "[unit]") {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        for (const bool waits : {true, false}) {
            reset(seed, 1);
            const OnDevice device(0);
            const CudaStream first = make_stream();
            const CudaStream second = make_stream();
            const CudaEvent event = make_event();
            const DeviceAddress memory = allocate(4);
            fill(memory, 1, 4, first);
            record(event, first);
            if (waits) {
                wait_for(second, event);
            }
            add_one(second, memory);
            settle();
            const std::string violations = taken_violations();
            CHECK((violations.find("Race: ") != std::string::npos) == !waits);
            CHECK((violations.find("add one in stream") != std::string::npos) == !waits);
            CHECK(taken_violations().empty());  // the violations were forgotten
        }
    }
}

TEST_CASE("The program does not know that its own work in a stream has ended", "[unit]") {
    for (const bool synchronizes : {true, false}) {
        reset(1, 1);
        const OnDevice device(0);
        const CudaStream first = make_stream();
        const CudaStream second = make_stream();
        const DeviceAddress memory = allocate(4);
        fill(memory, 1, 4, first);
        add_one(first, memory);
        if (synchronizes) {
            synchronize(first);
        }
        fill(memory, 5, 4, second);  // only synchronize() orders this fill() after the work in the first stream
        settle();
        CHECK(has_violation("Race: cuMemsetD8Async") == !synchronizes);
    }
}

TEST_CASE("Work of the program is refused in a stream that captures a graph", "[unit]") {
    reset(1, 1);
    const OnDevice device(0);
    const CudaStream stream = make_stream();
    REQUIRE(begin_capture(stream, 0) == kCudaSuccess);
    CHECK(gpu_stand_in_begin_work(stream, "nothing", nullptr, 0) == nullptr);
    CHECK(taken_violations().find("captures a graph") != std::string::npos);
    CHECK(end_capture(stream) == kCudaSuccess);
}
