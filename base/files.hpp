// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace rueda::base {

/// A function that returns the content of a file, or nothing if the file cannot be read. Tests pass in their own
/// function.
using FileReader = std::function<std::optional<std::string>(const std::string& path)>;

/// Reads a file. It is meant for the small files of /proc and /sys. Returns nothing if the file cannot be read or has
/// more than 4 MiB.
[[nodiscard]] std::optional<std::string> read_small_file(const std::string& path);

}  // namespace rueda::base
