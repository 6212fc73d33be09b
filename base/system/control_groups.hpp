// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.hpp"

namespace rueda::base {

/// The folders whose files limit this process for one controller: first its own control group, then the groups around
/// it, as far as they are visible here. A limit of any of them counts.
struct ControlGroupFolders {
    std::vector<std::string> version1;  ///< in the hierarchy of the controller
    std::vector<std::string> version2;  ///< in the unified hierarchy
};

/// `controller` is named as in version 1: "cpu", "memory". Finds the hierarchies wherever they are mounted
/// (/proc/self/mountinfo). It also works in containers, where the mount shows only a part of the hierarchy. Empty
/// without control groups.
[[nodiscard]] ControlGroupFolders control_group_folders(const FileReader& read, std::string_view controller);

/// Returns the first word of a file, or nothing if there is no file or no word.
[[nodiscard]] std::optional<std::string> read_word(const FileReader& read, const std::string& path);

/// Returns the number after `key` in a file with lines `key 123` or `key: 123 kB`, without its unit.
[[nodiscard]] std::optional<std::uint64_t> find_number(std::string_view text, std::string_view key);

/// Returns the parts of `text` between characters of `separators`, without empty parts.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, std::string_view separators);

}  // namespace rueda::base
