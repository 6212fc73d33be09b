// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "base/status.hpp"

namespace rueda::launcher {

/// The file that a shell would run for `name`: itself where it contains a '/', else the first of that name in the
/// folders of `path` that may be executed. InvalidArgument says what is wrong with it.
[[nodiscard]] Result<std::string> find_program(const std::string& name, const std::string& path);

}  // namespace rueda::launcher
