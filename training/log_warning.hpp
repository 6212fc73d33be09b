// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <functional>
#include <string_view>

namespace rueda::training {

/// Returns a function that logs a line as a warning of rank `rank`. RUEDA_LOG_LEVEL decides whether the line is logged.
[[nodiscard]] std::function<void(std::string_view)> warnings_to_the_log(int rank);

}  // namespace rueda::training
