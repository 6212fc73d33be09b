// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/jobs/job_note.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "launcher/processes/child_process.hpp"

namespace rueda::launcher {

namespace {

namespace fs = std::filesystem;

constexpr const char* kNoteName = "rueda-job";
/// /proc/<pid>/fd/<n> is a symbolic link. If the open file is a note, the link's target begins with this text.
constexpr std::string_view kNoteLink = "/memfd:rueda-job";
/// The search goes up from a process through at most this many parents. There may be several, because a program may be
/// started by scripts that call each other.
constexpr int kMostParents = 32;

bool is_ruedarun(std::int32_t pid) {
    std::error_code error;
    std::string name = fs::read_symlink(fmt::format("/proc/{}/exe", pid), error).filename().string();
    constexpr std::string_view kDeleted = " (deleted)";  // the kernel appends this text if an installation has replaced
                                                         // the file of ruedarun while ruedarun runs
    if (name.ends_with(kDeleted)) {
        name.resize(name.size() - kDeleted.size());
    }
    return name == "ruedarun";
}

/// Reads a note. `path` names an open file descriptor of another process (/proc/PID/fd/N). Meanwhile that process may
/// have opened a pipe or a socket under the same number. This function must not read from these, so it checks the kind
/// of the file.
std::optional<std::string> read_note(const std::string& path) {
    const base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    struct stat status {};
    if (!file.is_open() || ::fstat(file.value(), &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_size > static_cast<off_t>(JobNote::kLongest)) {
        return std::nullopt;
    }
    std::string text(static_cast<std::size_t>(status.st_size), '\0');
    const ssize_t count = ::pread(file.value(), text.data(), text.size(), 0);
    return count == status.st_size ? std::optional(std::move(text)) : std::nullopt;
}

}  // namespace

std::string describe_job(const std::string& token, const std::vector<std::string>& hosts) {
    std::vector<std::string> names;
    for (const std::string& host : hosts) {
        const bool is_ipv6 = host.find(':') != std::string::npos;
        names.push_back(is_ipv6 ? "[" + host + "]" : host);
    }
    return fmt::format("{}@{}", token, fmt::join(names, ","));
}

void JobNote::write(std::string_view text) {
    base::UniqueFd file;
    if (!text.empty() && text.size() <= kLongest) {
        file.reset(::memfd_create(kNoteName, MFD_CLOEXEC));
        if (file.is_open() && ::write(file.value(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
            file.reset();
        }
    }
    file_ = std::move(file);  // the previous note stays until the new one is complete
}

std::optional<std::string> read_note_of(pid_t pid) {
    std::error_code error;
    fs::directory_iterator entry(fmt::format("/proc/{}/fd", pid), fs::directory_options::skip_permission_denied, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
        std::error_code closed;  // an error if the process has just closed the descriptor
        if (fs::read_symlink(entry->path(), closed).string().starts_with(kNoteLink)) {
            if (std::optional<std::string> text = read_note(entry->path().string())) {
                return text;
            }
        }
    }
    return std::nullopt;
}

/// Searches only for the nearest ruedarun among the parents. A ruedarun further up has started another job. The search
/// ends at a process whose parent is 0, for example process 1 of a container.
std::optional<std::string> read_job_note(pid_t pid) {
    for (int i = 0; i < kMostParents && (pid = parent_of(pid).value_or(0)) > 0; ++i) {
        if (is_ruedarun(pid)) {
            return read_note_of(pid);
        }
    }
    return std::nullopt;
}

}  // namespace rueda::launcher
