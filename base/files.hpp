// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace rueda::base {

/// The content of a file, or nothing where it cannot be read. Tests hand in their own.
using FileReader = std::function<std::optional<std::string>(const std::string& path)>;

/// For the small files of /proc and /sys: nothing where the file cannot be read or has more than 4 MiB.
[[nodiscard]] std::optional<std::string> read_small_file(const std::string& path);

}  // namespace rueda::base
