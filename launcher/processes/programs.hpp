// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "base/status.hpp"

namespace rueda::launcher {

/// The file that a shell would run for `name`. That is `name` itself if it contains a '/', else the first executable
/// file of that name in the folders of `path`. An InvalidArgument says what is wrong.
[[nodiscard]] Result<std::string> find_program(const std::string& name, const std::string& path);

}  // namespace rueda::launcher
