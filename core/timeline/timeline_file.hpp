// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::core {

/// A file with one JSON array. It is complete after each write: a write replaces the closing bracket of the one before.
///
/// Threads: one at a time. Every function may wait for the file system.
class TimelineFile {
public:
    /// Replaces what is in the file. The failure names the path and what to do.
    [[nodiscard]] Status open(const std::string& path);
    /// Appends elements of the array, each of which ends with a comma and a new line.
    [[nodiscard]] Status append(std::string_view lines);

private:
    std::string path_;
    base::UniqueFd file_;
    std::uint64_t end_ = 0;  // where the next elements go; what follows is the end of the array
    bool has_elements_ = false;
};

}  // namespace rueda::core
