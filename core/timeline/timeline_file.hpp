// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::core {

/// A file with one JSON array. The array is complete after each write, because each write overwrites the array's
/// closing bracket and adds a new one.
///
/// Threads: one at a time. Every function may wait for the file system.
class TimelineFile {
public:
    /// Opens the file and removes its content. A failure names the path and says what to do.
    [[nodiscard]] Status open(const std::string& path);
    /// Appends elements to the array. In `lines`, each element ends with a comma and a new line.
    [[nodiscard]] Status append(std::string_view lines);

private:
    std::string path_;
    base::UniqueFd file_;
    // The position of the array's closing bracket, which the next elements overwrite.
    std::uint64_t end_ = 0;
    bool has_elements_ = false;
};

}  // namespace rueda::core
