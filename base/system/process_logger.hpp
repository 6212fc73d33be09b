// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>

#include "base/system/logging.hpp"

namespace rueda::base {

/// Makes a logger with the settings in the environment of this process, for code that also runs outside of a job. If
/// the settings are invalid, the logger uses the default settings and reports no error; init() reports it.
[[nodiscard]] Logger process_logger(std::optional<std::int32_t> rank = std::nullopt);

}  // namespace rueda::base
