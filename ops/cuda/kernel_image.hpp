// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string_view>

namespace rueda::ops::cuda {

/// Returns the text of all kernels in PTX for the oldest architecture that the compiler has (RUEDA_KERNEL_ARCHITECTURE
/// in cmake/RuedaCuda.cmake). cuModuleLoadData() compiles it for the device at hand. A null character follows the text,
/// as cuModuleLoadData() requires. The text is empty if neither nvcc nor clang was found when Rueda was configured.
[[nodiscard]] std::string_view kernel_image();

/// Returns the compiler that made the image: "nvcc", "clang++", or "none".
[[nodiscard]] std::string_view kernel_image_compiler();

}  // namespace rueda::ops::cuda
