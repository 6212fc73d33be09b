// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cmath>
#include <cstdint>

namespace rueda::core {

constexpr std::int64_t kSecond = 1'000'000'000;

/// Converts a setting that users give in seconds.
[[nodiscard]] inline std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

[[nodiscard]] inline double seconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }

}  // namespace rueda::core
