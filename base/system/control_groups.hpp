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

/// The folders whose files limit this process for one controller. The first folder is the process's own control group.
/// After it come the groups that contain this group, as far as they are visible. The limits of all these groups apply.
struct ControlGroupFolders {
    std::vector<std::string> version1;  ///< folders in the hierarchy of this controller (control groups version 1)
    std::vector<std::string> version2;  ///< folders in the unified hierarchy (version 2)
};

/// Finds the folders of a controller; `controller` is "cpu" or "memory". It reads /proc/self/mountinfo, so the
/// hierarchies may be mounted anywhere. The function also works in containers, where the mount shows only a part of the
/// hierarchy. The result is empty if the system has no control groups.
[[nodiscard]] ControlGroupFolders control_group_folders(const FileReader& read, std::string_view controller);

/// Returns the first word of a file. Returns nothing if the file does not exist or has no word.
[[nodiscard]] std::optional<std::string> read_word(const FileReader& read, const std::string& path);

/// Finds the line `key 123` or `key: 123 kB` in a file, and returns its number without the unit.
[[nodiscard]] std::optional<std::uint64_t> find_number(std::string_view text, std::string_view key);

/// Splits `text` at all characters of `separators`, and returns the parts that are not empty.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, std::string_view separators);

}  // namespace rueda::base
