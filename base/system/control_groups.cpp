// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/system/control_groups.hpp"

#include <algorithm>
#include <utility>

#include "base/numbers.hpp"

namespace rueda::base {

namespace {

/// One line of /proc/self/mountinfo: "36 35 98:0 /root /mount/point options [optional …] - type source options".
struct Mount {
    std::string root;   ///< the part of the mounted file system that is visible at the mount point
    std::string point;  ///< the mount point: the folder where the file system is mounted
    std::string_view type;
    std::string_view super_options;  ///< for version 1 of control groups: the names of the controllers
};

/// Decodes a path of mountinfo, in which the kernel writes a blank, tab, newline or backslash as an octal number, for
/// example \040.
std::string unescape(std::string_view path) {
    std::string text;
    for (std::size_t i = 0; i < path.size(); ++i) {
        const std::string_view octal = path.substr(i + 1, 3);
        const bool escaped = path[i] == '\\' && octal.size() == 3 &&
                             std::all_of(octal.begin(), octal.end(), [](char c) { return c >= '0' && c <= '7'; });
        if (escaped) {
            text += static_cast<char>((octal[0] - '0') * 64 + (octal[1] - '0') * 8 + (octal[2] - '0'));
            i += 3;
        } else {
            text += path[i];
        }
    }
    return text;
}

std::optional<Mount> parse_mount(std::string_view line) {
    const std::vector<std::string_view> words = split(line, " ");
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (dash - words.begin() < 6 || words.end() - dash < 4) {
        return std::nullopt;
    }
    return Mount{unescape(words[3]), unescape(words[4]), dash[1], dash[3]};
}

bool lists(std::string_view list, std::string_view word) {
    const std::vector<std::string_view> words = split(list, ",");
    return std::find(words.begin(), words.end(), word) != words.end();
}

/// Returns the control group of this process in a hierarchy, from a line of /proc/self/cgroup: "4:cpu,cpuacct:/path",
/// or "0::/path" in version 2.
std::optional<std::string> own_group(std::string_view groups, std::string_view controller) {
    for (const std::string_view line : split(groups, "\n")) {
        const std::size_t first = line.find(':');
        const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
        if (second == std::string_view::npos) {
            continue;
        }
        const std::string_view controllers = line.substr(first + 1, second - first - 1);
        if (controller.empty() ? controllers.empty() : lists(controllers, controller)) {
            return std::string(line.substr(second + 1));
        }
    }
    return std::nullopt;
}

/// Returns the path of the control group `group` relative to the mount's `root`. If the mount belongs to another
/// namespace, the group may lie outside of `root`. In that case the result is empty, and the caller uses only the mount
/// point.
std::string path_below(const std::string& group, const std::string& root) {
    const std::string prefix = root == "/" ? "" : root;
    const bool shown = group.starts_with(prefix) && (group.size() == prefix.size() || group[prefix.size()] == '/');
    if (!shown || group.find("/..") != std::string::npos) {
        return "";
    }
    const std::string below = group.substr(prefix.size());
    return below == "/" ? "" : below;
}

void append_upward(std::vector<std::string>& folders, const std::string& point, std::string below) {
    while (!below.empty()) {
        folders.push_back(point + below);
        below.resize(below.rfind('/'));
    }
    folders.push_back(point);
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
    std::vector<std::string_view> parts;
    std::size_t end = 0;
    for (;;) {
        const std::size_t begin = text.find_first_not_of(separators, end);
        if (begin == std::string_view::npos) {
            return parts;
        }
        end = std::min(text.find_first_of(separators, begin), text.size());
        parts.push_back(text.substr(begin, end - begin));
    }
}

std::optional<std::string> read_word(const FileReader& read, const std::string& path) {
    const std::optional<std::string> text = read(path);
    const std::vector<std::string_view> words = split(text ? std::string_view(*text) : std::string_view(), " \t\n");
    return words.empty() ? std::nullopt : std::optional(std::string(words.front()));
}

std::optional<std::uint64_t> find_number(std::string_view text, std::string_view key) {
    for (const std::string_view line : split(text, "\n")) {
        const std::vector<std::string_view> words = split(line, " \t:");
        if (words.size() >= 2 && words[0] == key) {
            return parse_integer<std::uint64_t>(words[1]);
        }
    }
    return std::nullopt;
}

ControlGroupFolders control_group_folders(const FileReader& read, std::string_view controller) {
    ControlGroupFolders folders;
    const std::string groups = read("/proc/self/cgroup").value_or("");
    const std::string mounts = read("/proc/self/mountinfo").value_or("");
    const std::optional<std::string> group1 = own_group(groups, controller);
    const std::optional<std::string> group2 = own_group(groups, "");
    for (const std::string_view line : split(mounts, "\n")) {
        const std::optional<Mount> mount = parse_mount(line);
        if (mount && group1 && mount->type == "cgroup" && lists(mount->super_options, controller)) {
            append_upward(folders.version1, mount->point, path_below(*group1, mount->root));
        } else if (mount && group2 && mount->type == "cgroup2") {
            append_upward(folders.version2, mount->point, path_below(*group2, mount->root));
        }
    }
    return folders;
}

}  // namespace rueda::base
