// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <sstream>

#include "launches.hpp"
#include "test_device.hpp"

namespace rueda::ops::cuda::test {
namespace {

// The machine or device that runs the kernels, for the whole process; main() sets it.
std::unique_ptr<PtxMachine> machine;
std::unique_ptr<TestDevice> device;

void use_ptx(const char* path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    machine = std::make_unique<PtxMachine>(text.str());
}

void use_device() {
    device = std::make_unique<TestDevice>();
    ops::test::buffer_memory = {[](std::size_t bytes) { return device->allocate(bytes); },
                                [](void* memory) { device->release(memory); }};
    std::printf("kernels run on %s\n", device->name().c_str());
}

}  // namespace

void run_kernel(const char* name, Dimensions grid, void* argument, std::size_t bytes) {
    const Dimensions block{kThreads, 1, 1};
    if (device != nullptr) {
        device->run(name, grid, block, argument);
    } else if (machine != nullptr) {
        machine->run(name, grid, block, argument, bytes);
    } else {
        const HostKernel kernel = find_host_kernel(name);
        CAPTURE(name);
        REQUIRE(kernel != nullptr);
        void* parameters[] = {argument};
        kernel(grid, block, parameters);
    }
}

bool is_chosen() {
    static std::uint64_t calls = 0;
    return machine == nullptr || calls++ % 25 == 0;
}

}  // namespace rueda::ops::cuda::test

/// RUEDA_TEST_PTX=file runs the kernels of a PTX file. RUEDA_TEST_DEVICE=1 runs the library's kernels on a GPU; without
/// a GPU, the program prints why it is skipped, and returns 77.
int main(int argc, char** argv) {
    // NOLINTBEGIN(concurrency-mt-unsafe): the program has one thread
    const char* const path = std::getenv("RUEDA_TEST_PTX");
    const bool on_device = std::getenv("RUEDA_TEST_DEVICE") != nullptr;
    // NOLINTEND(concurrency-mt-unsafe)
    try {
        if (on_device) {
            rueda::ops::cuda::test::use_device();
        } else if (path != nullptr) {
            rueda::ops::cuda::test::use_ptx(path);
        }
    } catch (const rueda::ops::cuda::test::NoDevice& error) {
        std::printf("skipped: %s\n", error.what());
        return 77;
    } catch (const std::exception& error) {
        std::printf("the kernels cannot be loaded: %s\n", error.what());
        return 1;
    }
    return Catch::Session().run(argc, argv);
}
