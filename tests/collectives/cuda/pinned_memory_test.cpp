// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests how the plugin pins the program's memory.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/collectives/cuda/members.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

using namespace std::chrono_literals;

void require_that(bool is_true, const char* what) {
    if (!is_true) {
        throw std::runtime_error(what);
    }
}

TEST_CASE("pinned memory is idle when the device has done the noted work", "[gpu]") {
    run_members(1, 1, 5, [](Member& member) {
        constexpr std::size_t kBytes = 8192;
        std::vector<std::byte> memory(kBytes, std::byte{7});
        auto pinned = member.runtime().pin(0, memory.data(), kBytes);
        const auto target = member.runtime().allocate(0, kBytes, DevicePath::automatic);
        require_that(pinned.is_ok() && target.is_ok(), "the memory");
        require_that(pinned.value()->is_idle().value(), "memory without work is not idle");
        const auto address = static_cast<cuda::DeviceAddress>(reinterpret_cast<std::uintptr_t>(memory.data()));
        require_that(gpu::is_known(memory.data()), "the driver does not know the memory");

        const auto stream = static_cast<cuda::CudaStream>(member.stream().stream);
        gpu::hold_device(0);
        const auto to = static_cast<cuda::DeviceAddress>(reinterpret_cast<std::uintptr_t>(target.value()));
        const auto copied = member.cuda().copy_async(to, address, kBytes, stream);
        const bool noted = pinned.value()->note_work(stream).is_ok();
        const bool was_idle = pinned.value()->is_idle().value();
        gpu::release_device(0);
        require_that(copied == 0 && noted, "the calls");
        require_that(!was_idle, "the memory is idle although the device copies from it");

        const auto limit = std::chrono::steady_clock::now() + 20s;
        while (!pinned.value()->is_idle().value()) {
            require_that(std::chrono::steady_clock::now() < limit, "the memory does not become idle");
            std::this_thread::yield();
        }
        require_that(pinned.value()->unpin().is_ok(), "unpin");
        require_that(!gpu::is_known(memory.data()), "the memory is still pinned");
        require_that(member.runtime().deallocate(target.value()), "deallocate");
    });
}

TEST_CASE("pinned memory whose work could not be noted is never idle", "[gpu]") {
    run_members(1, 1, 5, [](Member& member) {
        std::vector<std::byte> memory(4096);
        auto pinned = member.runtime().pin(0, memory.data(), memory.size());
        require_that(pinned.is_ok(), "pin");
        gpu::fail_call("cuEventRecord", 1, cuda::kCudaOutOfMemory);
        require_that(!pinned.value()->note_work(member.stream().stream).is_ok(), "the work was noted");
        require_that(!pinned.value()->is_idle().is_ok(), "the memory is idle");
        require_that(pinned.value()->note_work(member.stream().stream).is_ok(), "later work");
        require_that(!pinned.value()->is_idle().is_ok(), "the memory is idle after later work");
        require_that(pinned.value()->unpin().is_ok(), "unpin");
    });
}

TEST_CASE("memory that the driver cannot pin is an error that says what to do", "[gpu]") {
    run_members(1, 1, 5, [](Member& member) {
        std::vector<std::byte> memory(4096);
        auto first = member.runtime().pin(0, memory.data(), memory.size());
        require_that(first.is_ok(), "the first time");
        gpu::fail_call("cuMemHostRegister", 1, cuda::kCudaOutOfMemory);
        std::vector<std::byte> more(4096);
        const auto refused = member.runtime().pin(0, more.data(), more.size());
        require_that(refused.status().code() == ErrorCode::resource_exhausted, "the code");
        require_that(refused.status().message().find("4096 bytes of memory could not be pinned for GPU 0") == 0 &&
                         refused.status().message().find("ulimit -l") != std::string::npos,
                     "the message");
        require_that(member.runtime().pin(9, more.data(), more.size()).status().code() == ErrorCode::invalid_argument,
                     "a device that does not exist");
        require_that(first.value()->unpin().is_ok(), "unpin");
    });
}

}  // namespace
}  // namespace rueda::tests
