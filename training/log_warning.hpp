// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <functional>
#include <string_view>

namespace rueda::training {

/// Returns a function that logs a line as a warning of rank `rank`, as the settings say (RUEDA_LOG_LEVEL).
[[nodiscard]] std::function<void(std::string_view)> warnings_to_the_log(int rank);

}  // namespace rueda::training
