// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/timeline/timeline_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/text.hpp"

namespace rueda::core {

namespace {

constexpr std::string_view kBegin = "[";
constexpr std::string_view kEnd = "\n]\n";

std::string doing(const std::string& path, std::string_view call) {
    return fmt::format("writing the timeline {}: {}", base::quote(path, 300), call);
}

}  // namespace

Status TimelineFile::open(const std::string& path) {
    path_ = path;
    // O_NONBLOCK is set, because open() would otherwise wait if the path is a pipe that nobody reads.
    file_ = base::UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644));
    if (!file_.is_open()) {
        return system_failure(ErrorCode::invalid_argument, doing(path, "open"));
    }
    struct stat facts {};
    if (fstat(file_.value(), &facts) != 0) {
        return system_failure(ErrorCode::invalid_argument, doing(path, "fstat"));
    }
    if (!S_ISREG(facts.st_mode)) {
        return failure(ErrorCode::invalid_argument, "{}", doing(path, "expected the path of a regular file"));
    }
    if (ftruncate(file_.value(), 0) != 0) {
        return system_failure(ErrorCode::invalid_argument, doing(path, "ftruncate"));
    }
    end_ = 0;
    has_elements_ = false;
    return {};
}

Status TimelineFile::append(std::string_view lines) {
    if (lines.empty()) {
        return {};
    }
    lines.remove_suffix(2);  // removes the last comma and newline
    std::string text(has_elements_ ? "," : kBegin);
    text += '\n';
    text += lines;
    const std::size_t kept = text.size();
    text += kEnd;
    std::size_t written = 0;
    while (written < text.size()) {
        const ssize_t count =
            pwrite(file_.value(), text.data() + written, text.size() - written, static_cast<off_t>(end_ + written));
        if (count < 0 && errno != EINTR) {
            return system_failure(ErrorCode::resource_exhausted, doing(path_, "write"));
        }
        written += count > 0 ? static_cast<std::size_t>(count) : 0;
    }
    end_ += kept;
    has_elements_ = true;
    return {};
}

}  // namespace rueda::core
