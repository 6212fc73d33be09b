// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests allreduces whose pieces move through pinned memory that all members share, on the stand-in. operations_test.cpp
// compares the results of all operations.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/collectives/cuda/elements.hpp"
#include "tests/collectives/cuda/members.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPiece = 1000;

void demand_true(bool is_true, const std::string& what) {
    if (!is_true) {
        throw std::runtime_error(what);
    }
}

/// Returns a tensor whose input is also its output. Element i is the member's number + 1 + (i modulo 7).
Segment counted_tensor(Member& member, std::size_t count) {
    std::vector<double> values(count);
    for (std::size_t i = 0; i < count; ++i) {
        values[i] = member.number() + 1.0 + static_cast<double>(i % 7);
    }
    std::byte* const memory = member.put(encode(DType::float32, values));
    return {.dtype = DType::float32, .count = count, .input = memory, .output = memory};
}

/// The test fails if the output of `segment` is not the sum of all members' tensors.
void demand_sum(Member& member, const Segment& segment) {
    const auto found = decode(segment.dtype, member.get(segment.output, segment.bytes()));
    const double numbers = member.members() * (member.members() + 1) / 2.0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const double expected = numbers + static_cast<double>(member.members() * (i % 7));
        demand_true(found[i] == expected, "element " + std::to_string(i) + " is " + std::to_string(found[i]) +
                                              " instead of " + std::to_string(expected));
    }
}

void reduce_tensors(Member& member, DeviceCommunicator& communicator, int batches) {
    for (int batch = 0; batch < batches; ++batch) {
        const auto more = static_cast<std::size_t>(batch);
        const std::vector<Segment> segments{counted_tensor(member, 30 + more),
                                            counted_tensor(member, 2000 + 100 * more), counted_tensor(member, 1)};
        const Status run = member.run(communicator, {.segments = segments});
        demand_true(run.is_ok(), run.message());
        for (const Segment& segment : segments) {
            demand_sum(member, segment);
        }
    }
}

/// If `holds` is true, holds back all work of a device until release() is called or this object is destroyed.
class HeldDevice {
public:
    HeldDevice(int device, bool holds) : device_(device), holds_(holds) {
        if (holds_) {
            gpu::hold_device(device_);
        }
    }
    ~HeldDevice() { release(); }
    HeldDevice(const HeldDevice&) = delete;
    HeldDevice& operator=(const HeldDevice&) = delete;
    void release() const {
        if (holds_) {
            gpu::release_device(device_);
        }
    }

private:
    const int device_;
    const bool holds_;
};

TEST_CASE("allreduces go through memory that all members share", "[gpu]") {
    const auto seed = static_cast<std::uint64_t>(GENERATE(1, 2, 3, 4));
    const std::uint32_t members = GENERATE(2U, 3U);
    std::atomic<std::size_t> allocated{0};
    run_members(
        members, 1, seed,
        [&](Member& member) {
            member.set_path(DevicePath::host);
            member.share_memory();
            const auto communicator = member.connect();
            member.meet();
            const std::size_t before = gpu::calls("cuMemHostAlloc");
            member.meet();
            const Segment first = counted_tensor(member, 2000);
            demand_true(member.run(*communicator, {.segments = {&first, 1}}).is_ok(), "the first batch");
            member.meet();
            allocated = gpu::calls("cuMemHostAlloc") - before;
            member.meet();
            demand_sum(member, first);
            reduce_tensors(member, *communicator, 5);
        },
        nullptr, kPiece);
    CHECK(allocated == members);  // for the test's own copies
    CHECK(gpu::calls("cuMemHostRegister") == members);
}

/// If the threads of the simulated device are not scheduled for a second, the area stays pinned. So the test makes
/// several attempts.
TEST_CASE("the end of a communicator unpins its shared memory", "[gpu]") {
    std::size_t unpinned = 0;
    for (std::uint64_t attempt = 1; attempt <= 10 && unpinned != 2; ++attempt) {
        run_members(
            2, 1, attempt,
            [&](Member& member) {
                member.set_path(DevicePath::host);
                member.share_memory();
                const auto communicator = member.connect();
                reduce_tensors(member, *communicator, 1);
            },
            nullptr, kPiece);
        unpinned = gpu::calls("cuMemHostUnregister");
    }
    CHECK(unpinned == 2);
}

TEST_CASE("no member uses shared memory if one of them has none", "[gpu]") {
    const std::string what = GENERATE(as<std::string>{}, "no shared memory", "no pinned memory");
    CAPTURE(what);
    const bool cannot_pin = what == "no pinned memory";
    run_members(
        3, 1, 5,
        [&](Member& member) {
            member.set_path(DevicePath::host);
            member.share_memory(!cannot_pin && member.number() == 1 ? 10'000 : std::size_t{2} << 20);
            const auto communicator = member.connect();
            if (cannot_pin && member.number() == 0) {
                gpu::fail_call("cuMemHostRegister", 2, cuda::kCudaNotSupported);
            }
            member.meet();
            reduce_tensors(member, *communicator, 3);
        },
        nullptr, kPiece);
    CHECK(gpu::calls("cuMemHostRegister") == (cannot_pin ? 3 : 2));
    CHECK(gpu::calls("cuMemHostUnregister") <= 2);
}

TEST_CASE("a large batch of other operations mixes with shared memory", "[gpu]") {
    run_members(
        2, 1, 6,
        [](Member& member) {
            member.set_path(DevicePath::host);
            member.share_memory();
            const auto communicator = member.connect();
            for (int round = 0; round < 3; ++round) {
                Segment vector = counted_tensor(member, 500);
                vector.reduce_op = ReduceOp::adasum;
                demand_true(member.run(*communicator, {.segments = {&vector, 1}}).is_ok(), "Adasum");
                reduce_tensors(member, *communicator, 1);
                Segment message = counted_tensor(member, 1500);
                message.root = 1;
                demand_true(
                    member.run(*communicator, {.operation = Operation::broadcast, .segments = {&message, 1}}).is_ok(),
                    "the broadcast");
                const auto found = decode(message.dtype, member.get(message.output, message.bytes()));
                demand_true(found.front() == 2.0, "the broadcast's result");
                reduce_tensors(member, *communicator, 1);
            }
        },
        nullptr, kPiece);
}

TEST_CASE("a member waits until the others have copied their pieces in", "[gpu]") {
    run_members(
        2, 2, 7,
        [](Member& member) {
            member.set_path(DevicePath::host);
            member.share_memory();
            const auto communicator = member.connect();
            reduce_tensors(member, *communicator, 1);
            member.meet();
            const HeldDevice held(1, member.number() == 0);
            const Segment segment = counted_tensor(member, 400);
            member.meet();
            auto ready = member.runtime().record(member.stream());
            demand_true(ready.is_ok(), "record");
            const std::vector<DeviceEventPtr> events{ready.value()};
            const std::vector<Location> locations(2);
            const Batch host{.segments = {&segment, 1}, .locations = locations, .splits = {}};
            Task& task = communicator->start({.segments = {&segment, 1}, .ready = events, .host = host});
            // The device of member 1 is held back, so member 1 cannot copy its piece to the shared memory.
            const auto limit = std::chrono::steady_clock::now() + 20s;
            int steps = 0;
            while (steps < 100) {
                demand_true(task.step() != StepResult::done, "the batch ended without member 1");
                demand_true(communicator->failed().is_ok(), "a failure");
                demand_true(std::chrono::steady_clock::now() < limit, "member 0 does not wait for the other member");
                const bool waits = communicator->launch_phase() == LaunchPhase::on_cpu;
                demand_true(!waits || member.number() == 0, "member 1 does not wait for its device");
                steps += waits || member.number() == 1 ? 1 : 0;
                std::this_thread::yield();
            }
            member.meet();
            held.release();
            demand_true(Member::drive(*communicator, task).is_ok(), "the batch");
            demand_true(communicator->end()->make_wait(member.stream()).is_ok(), "the wait");
            demand_sum(member, segment);
        },
        nullptr, kPiece);
}

TEST_CASE("shared memory stays pinned while the device has work that does not end", "[gpu]") {
    run_members(
        2, 2, 8,
        [](Member& member) {
            member.set_path(DevicePath::host);
            member.share_memory();
            auto communicator = member.connect();
            reduce_tensors(member, *communicator, 1);
            member.meet();
            const HeldDevice held(1, member.number() == 0);
            member.meet();
            const Segment segment = counted_tensor(member, 10);
            const auto pinned = member.runtime().host_memory(member.device(), segment.bytes());
            const auto ready = member.runtime().record(member.stream());
            demand_true(pinned.is_ok() && ready.is_ok(), "the memory of the host");
            const auto copied = member.runtime().copy(member.device(), pinned.value().get(), segment.input,
                                                      segment.bytes(), ready.value());
            demand_true(copied.is_ok(), "the copy");
            communicator.reset();
            member.meet();
            demand_true(gpu::calls("cuMemHostUnregister") <= 1, "the held device's area was unpinned");
            member.meet();
            held.release();
            while (!copied.value()->is_done().value()) {
                std::this_thread::yield();
            }
        },
        nullptr, kPiece);
}

}  // namespace
}  // namespace rueda::tests
