// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests, on the stand-in, the clock that measures the times of a device's work: with a busy device, and with calls that
// fail.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>

#include "collectives/cuda/cuda_device.hpp"
#include "tests/collectives/cuda/members.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

/// A device of the stand-in, and a stream on it.
struct MeasuredDevice {
    explicit MeasuredDevice(std::uint64_t seed) {
        gpu::reset(seed, 1);
        static_cast<void>(tables.cuda.init(0));
        device = cuda::Device::open(tables.cuda, 0, {}).value();
        scope = std::make_unique<cuda::ContextScope>(device->api(), device->context());
        stream = device->stream().value();
    }
    /// Begins to measure work. Tries again until the device's clock is known, which can take several seconds on a busy
    /// machine. Returns the beginning of the measured work.
    [[nodiscard]] cuda::TimedBegin begin_when_possible() const {
        const auto limit = SteadyClock::now() + 20s;
        cuda::TimedBegin begin = device->begin_timed(stream);
        while (begin.event == nullptr && SteadyClock::now() < limit) {
            // The clock is measured at most once a second. This loop must poll, because no event tells this thread that
            // the clock was measured.
            std::this_thread::sleep_for(1ms);
            begin = device->begin_timed(stream);
        }
        REQUIRE(begin.event != nullptr);
        return begin;
    }

    GpuTables tables = tables_of_stand_in();
    std::shared_ptr<cuda::Device> device;
    std::unique_ptr<cuda::ContextScope> scope;
    cuda::CudaStream stream = nullptr;
};

TEST_CASE("a busy device is asked for its clock once a second, and no event is left", "[gpu]") {
    const MeasuredDevice busy(61);
    gpu::hold_device(0);
    const std::size_t events = gpu::live_events();
    const auto first_try = SteadyClock::now();
    CHECK(busy.device->begin_timed(busy.stream).event == nullptr);
    CHECK(gpu::live_events() == events);
    const std::size_t records = gpu::calls("cuEventRecord");
    for (int batch = 0; batch < 20 && SteadyClock::now() < first_try + 900ms; ++batch) {
        CHECK(busy.device->begin_timed(busy.stream).event == nullptr);
    }
    CHECK(gpu::calls("cuEventRecord") == records);
    CHECK(gpu::live_events() == events);

    gpu::release_device(0);
    auto end = busy.device->end_timed(busy.begin_when_possible(), busy.stream);
    CHECK(SteadyClock::now() - first_try >= 1s);
    REQUIRE(end.is_ok());
    gpu::settle();
    CHECK(end.value()->is_done().value());
    CHECK(end.value()->times().has_value());
}

TEST_CASE("calls that fail leave no events of measured work", "[gpu]") {
    const MeasuredDevice failing(62);
    auto first = failing.device->end_timed(failing.begin_when_possible(), failing.stream);  // fills the pool
    REQUIRE(first.is_ok());
    first.value().reset();
    const std::size_t events = gpu::live_events();

    gpu::fail_call("cuEventRecord", 1, cuda::kCudaInvalidValue);
    CHECK(failing.device->begin_timed(failing.stream).event == nullptr);
    CHECK(gpu::live_events() == events);

    // The end of the work is normally an event with a time. If this event cannot be recorded, the work is not measured.
    // A second event, without a time, still shows that the work has ended.
    cuda::TimedBegin begin = failing.begin_when_possible();
    gpu::fail_call("cuEventRecord", 1, cuda::kCudaInvalidValue);
    const auto unmeasured = failing.device->end_timed(begin, failing.stream);
    REQUIRE(unmeasured.is_ok());
    CHECK_FALSE(unmeasured.value()->times().has_value());
    CHECK(gpu::live_events() == events);

    // The event at the end of the work cannot be recorded, and a second event without a time cannot be recorded,
    // either. So the end of the work is not known.
    begin = failing.begin_when_possible();
    gpu::fail_call("cuEventRecord", 2, cuda::kCudaInvalidValue);
    CHECK_FALSE(failing.device->end_timed(begin, failing.stream).is_ok());
    CHECK(gpu::live_events() <= events + 1);  // one event more than before is allowed: the pool keeps events for reuse
}

}  // namespace
}  // namespace rueda::tests
