// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "collectives/cuda/nccl_api.hpp"

namespace rueda::tests::gpu {

using collectives::cuda::NcclReduction;
using collectives::cuda::NcclType;

/// Returns the bytes of an element, or 0 for a type that the stand-in does not know.
[[nodiscard]] std::size_t element_bytes(NcclType type);
[[nodiscard]] const char* type_name(NcclType type);

/// A factor with the type of the tensor.
using Factor = std::array<std::byte, 8>;

/// Reduces each element of `operand` into the same element of `accumulator`. float16 and bfloat16 are rounded after
/// each step, as NCCL does (src/device/reduce_kernel.h). `reduction` is one of NCCL's five reductions. For an average,
/// this function adds.
void combine(std::byte* accumulator, const std::byte* operand, std::size_t count, NcclType type,
             NcclReduction reduction);
/// Multiplies each element by the factor, in the tensor's type.
void multiply(std::byte* values, std::size_t count, NcclType type, const Factor& factor);
/// Whether the type has floating-point numbers. To average, NCCL multiplies floats by 1/ranks before the sum, and
/// divides integers by `ranks` after the sum (src/enqueue.cc).
[[nodiscard]] bool is_floating(NcclType type);
[[nodiscard]] Factor one_divided_by(int ranks, NcclType type);
void divide(std::byte* values, std::size_t count, NcclType type, int divisor);

[[nodiscard]] float from_half(std::uint16_t half);
[[nodiscard]] std::uint16_t to_half(float value);
[[nodiscard]] float from_bfloat16(std::uint16_t value);
[[nodiscard]] std::uint16_t to_bfloat16(float value);

}  // namespace rueda::tests::gpu
