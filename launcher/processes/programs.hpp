// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "base/status.hpp"

namespace rueda::launcher {

/// Returns the file that a shell would run for `name`: `name` itself if it contains a '/', otherwise the first
/// executable file with this name in the folders of `path`. Fails with InvalidArgument if there is no such file.
[[nodiscard]] Result<std::string> find_program(const std::string& name, const std::string& path);

}  // namespace rueda::launcher
