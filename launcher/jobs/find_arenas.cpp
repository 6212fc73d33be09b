// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/jobs/find_arenas.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/files.hpp"
#include "base/numbers.hpp"
#include "base/system/process_status.hpp"

namespace rueda::launcher {

namespace {

namespace fs = std::filesystem;

/// /proc/<pid>/fd/<n> is a symbolic link. If the open file is the shared memory of a job, the link's target begins with
/// this text.
constexpr std::string_view kArenaLink = "/memfd:rueda-arena";

/// Returns the entries of a folder that are numbers, in ascending order. If the folder has disappeared, returns
/// nothing.
std::vector<std::int32_t> numbers_in(const fs::path& folder) {
    std::vector<std::int32_t> numbers;
    std::error_code error;
    fs::directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
        if (const auto number = base::parse_integer<std::int32_t>(entry->path().filename().string())) {
            numbers.push_back(*number);
        }
    }
    std::sort(numbers.begin(), numbers.end());
    return numbers;
}

bool belongs_to_this_user(std::int32_t pid) {
    struct stat status {};
    return ::stat(fmt::format("/proc/{}", pid).c_str(), &status) == 0 && status.st_uid == ::geteuid();
}

bool is_arena(const fs::path& descriptor) {
    std::error_code error;
    return fs::read_symlink(descriptor, error).string().starts_with(kArenaLink);
}

std::optional<Holder> holder_of(std::int32_t pid) {
    const std::optional<base::ProcessStatus> process = base::read_process_status(pid);
    if (!process || process->has_ended()) {
        return std::nullopt;
    }
    const std::string status = base::read_small_file(fmt::format("/proc/{}/status", pid)).value_or("");
    const std::int32_t inner = parse_inner_pid(status);
    return Holder{pid, inner != 0 ? inner : pid, process->start_time};
}

/// Records that the process `holder` has the file `path` open.
void add(std::vector<FoundArena>& arenas, const Holder& holder, const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
        return;  // the process has closed the file in the meantime
    }
    auto arena = std::find_if(arenas.begin(), arenas.end(),
                              [&status](const FoundArena& known) { return known.inode == status.st_ino; });
    if (arena == arenas.end()) {
        arena = arenas.insert(arenas.end(), {status.st_ino, path, {}});
    }
    if (arena->holders.empty() || arena->holders.back().pid != holder.pid) {
        arena->holders.push_back(holder);
    }
}

}  // namespace

std::int32_t parse_inner_pid(const std::string& status) {
    constexpr std::string_view kLine = "\nNSpid:";
    const std::size_t begin = status.find(kLine);
    if (begin == std::string::npos) {
        return 0;
    }
    std::string_view line = std::string_view(status).substr(begin + kLine.size());
    line = line.substr(0, line.find('\n'));
    return base::parse_integer<std::int32_t>(line.substr(line.find_last_of(" \t") + 1)).value_or(0);
}

std::vector<FoundArena> find_arenas() {
    std::vector<FoundArena> arenas;
    for (const std::int32_t pid : numbers_in("/proc")) {
        if (!belongs_to_this_user(pid)) {
            continue;
        }
        const std::string folder = fmt::format("/proc/{}/fd", pid);
        std::optional<Holder> holder;
        for (const std::int32_t descriptor : numbers_in(folder)) {
            const std::string path = fmt::format("{}/{}", folder, descriptor);
            if (!is_arena(path)) {
                continue;
            }
            holder = holder ? holder : holder_of(pid);
            if (!holder) {
                break;
            }
            add(arenas, *holder, path);
        }
    }
    return arenas;
}

}  // namespace rueda::launcher
