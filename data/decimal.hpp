// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

namespace rueda::data {

/// Functions that read numbers from the middle of a text, fast. Each one reads the longest number at `place`, writes
/// it to `value`, and returns the place behind it. It returns a null pointer if there is no number or if the number
/// does not fit the type. The byte at `end` must be readable. Threads: any.

/// Reads an integer with an optional sign: 12, -3, +4.
[[nodiscard]] const char* read_integer(const char* place, const char* end, std::int64_t& value) noexcept;

/// Reads a decimal number: 1, -0.25, +.5, 1e-3, inf, nan. The result is the nearest number of the type, as with
/// std::from_chars. A number that is too large is an error, and a number that is too small becomes zero or a subnormal
/// number.
[[nodiscard]] const char* read_real(const char* place, const char* end, float& value) noexcept;
[[nodiscard]] const char* read_real(const char* place, const char* end, double& value) noexcept;

}  // namespace rueda::data
