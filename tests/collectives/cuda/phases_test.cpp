// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the phases that a batch reports while it moves through the host's memory, on the stand-in.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <set>
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

void assure(bool is_true, const std::string& what) {
    if (!is_true) {
        throw std::runtime_error(what);
    }
}

/// A batch of tensors, each of which is reduced in place. batch() also describes it for the communicator of the CPU.
struct WatchedBatch {
    WatchedBatch(Member& member, std::initializer_list<DType> dtypes) {
        for (const DType dtype : dtypes) {
            std::byte* const memory = member.put(encode(dtype, std::vector<double>(1000, 1.0)));
            segments.push_back({.dtype = dtype, .count = 1000, .input = memory, .output = memory});
        }
        locations.resize(segments.size() * member.members());
        auto event = member.runtime().record(member.stream());
        event.status().throw_if_failed();
        ready.assign(segments.size(), event.value());
    }
    [[nodiscard]] DeviceBatch batch() const {
        return {
            .segments = segments, .ready = ready, .host = {.segments = segments, .locations = locations, .splits = {}}};
    }
    std::vector<Segment> segments;
    std::vector<Location> locations;
    std::vector<DeviceEventPtr> ready;
};

/// The phases and kinds of work that the steps of a task reported.
struct Seen {
    std::set<LaunchPhase> phases;
    std::set<StepWork> waits;         // kinds of work in steps without progress, in phases other than on_cpu
    std::set<StepWork> waits_on_cpu;  // kinds of work in steps without progress, in the phase on_cpu
    std::set<StepWork> works;         // kinds of work in steps that made progress
    std::set<LaunchPhase> phases_with_chunks;
};

/// Takes one step, records what it reported, and returns whether the task is done.
bool step_and_look(DeviceCommunicator& communicator, Task& task, Seen& seen) {
    const StepResult result = task.step();
    communicator.failed().throw_if_failed();
    if (result == StepResult::done) {
        assure(!task.chunks(), "a task that is done has chunks");
        return true;
    }
    const LaunchPhase phase = communicator.launch_phase();
    seen.phases.insert(phase);
    if (const auto chunks = task.chunks(); chunks) {
        assure(chunks->count > 0, "no chunks");
        seen.phases_with_chunks.insert(phase);
    }
    if (result != StepResult::polling) {
        seen.works.insert(task.last_work());
    } else {
        (phase == LaunchPhase::on_cpu ? seen.waits_on_cpu : seen.waits).insert(task.last_work());
    }
    return false;
}

Seen look_until_done(DeviceCommunicator& communicator, Task& task, Seen seen = {}) {
    const auto limit = std::chrono::steady_clock::now() + 20s;
    while (!step_and_look(communicator, task, seen)) {
        assure(std::chrono::steady_clock::now() < limit, "the batch is not launched");
        std::this_thread::yield();
    }
    return seen;
}

TEST_CASE("a batch in the host's memory says whether it waits for its inputs, for copies or for the CPU", "[gpu]") {
    run_members(2, 2, 71, [](Member& member) {
        member.set_path(DevicePath::host);
        const auto communicator = member.connect();
        member.meet();
        if (member.number() == 1) {
            gpu::hold_device(1);
        }
        member.meet();
        const WatchedBatch tensors(member, {DType::float32});
        Task& task = communicator->start(tensors.batch());
        Seen seen;
        if (member.number() == 1) {
            for (int i = 0; i < 100; ++i) {
                assure(!step_and_look(*communicator, task, seen), "the batch is done");
            }
            assure(seen.phases == std::set{LaunchPhase::waits_for_inputs}, "another phase with a device that hangs");
            assure(seen.waits == std::set{StepWork::device_wait} && seen.works.empty(), "another work");
            gpu::release_device(1);
        } else {
            // The device of the other member hangs. Therefore this member reaches the phase on_cpu, and waits in it.
            const auto limit = std::chrono::steady_clock::now() + 20s;
            while (!seen.phases.contains(LaunchPhase::on_cpu)) {
                assure(!step_and_look(*communicator, task, seen), "the batch is done");
                assure(std::chrono::steady_clock::now() < limit, "the CPU does not begin");
                std::this_thread::yield();
            }
        }
        seen = look_until_done(*communicator, task, std::move(seen));
        assure(seen.phases.contains(LaunchPhase::copies) && seen.phases.contains(LaunchPhase::on_cpu), "a phase");
        assure(!seen.phases.contains(LaunchPhase::launching), "a phase of NCCL");
        assure(seen.phases_with_chunks == std::set{LaunchPhase::on_cpu}, "chunks in another phase");
        // `waits` is empty if no step saw the device at work. This happens if this member's thread did not run while
        // the device copied.
        assure(seen.waits.empty() || seen.waits == std::set{StepWork::device_wait}, "a wait for something else");
        assure(!seen.waits_on_cpu.contains(StepWork::device_wait), "the CPU's task waits for a device");
        assure(seen.works.contains(StepWork::copy_in), "no copy");
        assure(communicator->last_call() == DeviceCall::copies, "another call");
        communicator->end()->make_wait(member.stream()).throw_if_failed();
    });
}

TEST_CASE("a batch that takes both ways shows the phase of the part in progress", "[gpu]") {
    run_members(2, 2, 72, [](Member& member) {
        const auto communicator = member.connect();
        const WatchedBatch tensors(member, {DType::float32, DType::int16});
        const Seen seen = look_until_done(*communicator, communicator->start(tensors.batch()));
        assure(seen.phases.contains(LaunchPhase::copies) && seen.phases.contains(LaunchPhase::on_cpu), "a phase");
        assure(seen.phases_with_chunks == std::set{LaunchPhase::on_cpu}, "chunks in another phase");
        assure(communicator->last_call() == DeviceCall::nccl_all_reduce, "another call");
        communicator->end()->make_wait(member.stream()).throw_if_failed();
    });
}

}  // namespace
}  // namespace rueda::tests
