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

/// The folders whose files limit this process for one controller, its own control group first, then the groups around
/// it as far as they can be seen from here. A limit of any of them counts.
struct ControlGroupFolders {
    std::vector<std::string> version1;  ///< of the hierarchy of the controller
    std::vector<std::string> version2;  ///< of the unified hierarchy
};

/// `controller` as version 1 names it: "cpu", "memory". Wherever the hierarchies are mounted (/proc/self/mountinfo), in
/// containers too, where the mount shows only a part of the hierarchy. Empty without control groups.
[[nodiscard]] ControlGroupFolders control_group_folders(const FileReader& read, std::string_view controller);

/// The first word of a file; nothing where there is no file or no word.
[[nodiscard]] std::optional<std::string> read_word(const FileReader& read, const std::string& path);

/// The number after `key` in a file of lines `key 123` or `key: 123 kB`, without its unit.
[[nodiscard]] std::optional<std::uint64_t> find_number(std::string_view text, std::string_view key);

/// The parts of `text` between characters of `separators`, without empty ones.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, std::string_view separators);

}  // namespace rueda::base
