// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests when the plugin frees the device memory that a program has allocated through it.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/collectives/cuda/members.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

using namespace std::chrono_literals;

void demand_that(bool is_true, const char* what) {
    if (!is_true) {
        throw std::runtime_error(what);
    }
}

TEST_CASE("memory is freed after the device's last work with it, and nobody waits for the device", "[gpu]") {
    run_members(1, 1, 9, [](Member& member) {
        constexpr std::size_t kBytes = 1000;
        DeviceRuntime& runtime = member.runtime();
        const auto pinned = runtime.host_memory(0, kBytes);
        const auto memory = runtime.allocate(0, kBytes, DevicePath::automatic);
        demand_that(pinned.is_ok() && memory.is_ok(), "the memory");
        demand_that(runtime.memory_of(memory.value() + kBytes - 1)->begin == memory.value(), "the end of the block");
        demand_that(runtime.memory_of(memory.value() + kBytes) == nullptr, "behind the block");
        demand_that(!runtime.deallocate(memory.value() + 1), "the middle of a block");
        const std::size_t before = gpu::allocated_bytes();
        gpu::hold_device(0);
        std::atomic<bool> has_returned{false};
        std::atomic<bool> was_late{false};
        std::thread releases([&] {
            const auto limit = std::chrono::steady_clock::now() + 20s;
            while (!has_returned && !was_late) {
                was_late = std::chrono::steady_clock::now() > limit;
                std::this_thread::yield();
            }
            gpu::release_device(0);
        });
        const auto copied = runtime.copy(0, pinned.value().get(), memory.value(), kBytes, nullptr);
        const bool given_back = runtime.deallocate(memory.value());
        const bool is_freed = gpu::allocated_bytes() < before;
        has_returned = true;
        releases.join();
        demand_that(copied.is_ok() && given_back, "the calls");
        demand_that(!was_late, "the call waited for the device");
        demand_that(!is_freed, "the memory was freed although the device uses it");
        demand_that(runtime.memory_of(memory.value()) == nullptr, "the block is still there");
        // When the device has done the copy, a later call of the program (here record()) frees the memory.
        const auto limit = std::chrono::steady_clock::now() + 20s;
        while (gpu::allocated_bytes() >= before && std::chrono::steady_clock::now() < limit) {
            demand_that(runtime.record(member.stream()).is_ok(), "record");
        }
        demand_that(gpu::allocated_bytes() == before - kBytes, "the memory was not freed");
        demand_that(!runtime.deallocate(memory.value()), "the memory was given back twice");
    });
}

}  // namespace
}  // namespace rueda::tests
