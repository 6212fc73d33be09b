// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

#include "ops/cuda/host_kernels.hpp"

namespace rueda::ops::cuda::test {

/// Thrown if there is no driver, no device or no kernel. Tests on a device are then skipped.
class NoDevice : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// The first GPU of this machine, through the driver API of libcuda.so.1, which is opened at run time. Only tests use
/// this class. All memory is managed memory, which the host and the GPU access at the same address. Every function
/// waits until the GPU is done, and throws std::runtime_error with CUDA's name of the error.
class TestDevice {
public:
    /// Throws NoDevice, or std::runtime_error if the driver does not accept the kernels.
    TestDevice();

    void run(const std::string& kernel, Dimensions grid, Dimensions block, void* argument) const;
    [[nodiscard]] void* allocate(std::size_t bytes) const;
    void release(void* memory) const;
    [[nodiscard]] const std::string& name() const { return name_; }

private:
    template <class Function>
    Function* function_of(const char* symbol) const;
    void check(int result, const std::string& call) const;

    void* library_ = nullptr;
    void* module_ = nullptr;
    std::string name_;
};

}  // namespace rueda::ops::cuda::test
