// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <functional>
#include <string>

#include "base/status.hpp"
#include "collectives/cuda/cuda_api.hpp"

namespace rueda::collectives::cuda {

/// Returns the address of a library's function, or null.
using FindFunction = std::function<void*(const char* symbol)>;

/// Fills the table `api`. If the library lacks a function, returns Unsupported with the function's name and `library`,
/// a description like "the driver library libcuda.so.1".
[[nodiscard]] Status fill_cuda_api(CudaApi& api, const std::string& library, const FindFunction& find);

/// Opens NVIDIA's driver and initialises it. Returns Unsupported, with what to do, if the machine has no driver or no
/// device. The library is never closed, because the driver cannot be unloaded. Creates no context. Threads: any thread
/// may call this function.
[[nodiscard]] Result<CudaApi> load_cuda();

/// Initialises the driver and looks whether there is a device. load_cuda() calls this function.
[[nodiscard]] Status initialise_cuda(const CudaApi& api);

/// Describes an error of the driver in one line: "cuEventRecord failed on GPU 1: CUDA_ERROR_ILLEGAL_ADDRESS (700): …".
/// `device` is −1 if the call concerns no device. `advice` says what to do; it may be empty, because the function adds
/// its own advice for well-known errors.
[[nodiscard]] Status cuda_failure(const CudaApi& api, ErrorCode code, const char* call, int device, CudaResult error,
                                  const char* advice = "");

}  // namespace rueda::collectives::cuda
