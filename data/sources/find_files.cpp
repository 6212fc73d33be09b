// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status.hpp"
#include "rueda/data/source.hpp"

namespace rueda::data {

namespace {

/// The result of glob(3), which must be freed.
class GlobResult {
public:
    explicit GlobResult(const std::string& pattern)
        // glibc's glob uses shared state only to look up a user's home folder, which GLOB_TILDE asks for.
        // NOLINTNEXTLINE(concurrency-mt-unsafe): without GLOB_TILDE, several threads may call it
        : outcome_(::glob(pattern.c_str(), 0, nullptr, &found_)) {}
    GlobResult(const GlobResult&) = delete;
    GlobResult& operator=(const GlobResult&) = delete;
    ~GlobResult() { ::globfree(&found_); }

    [[nodiscard]] int outcome() const noexcept { return outcome_; }
    [[nodiscard]] std::span<char*> paths() const noexcept { return {found_.gl_pathv, found_.gl_pathc}; }

private:
    glob_t found_{};
    int outcome_;
};

Status check_is_file(const std::string& path, const std::string& pattern) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) {
        return system_failure(ErrorCode::invalid_argument, fmt::format("finding files: stat of '{}'", path));
    }
    if (S_ISFIFO(info.st_mode)) {
        return failure(ErrorCode::invalid_argument,
                       "finding files: '{}' matches '{}', which is a FIFO; expected regular files; use fifo() for it",
                       pattern, path);
    }
    if (!S_ISREG(info.st_mode)) {
        return failure(ErrorCode::invalid_argument,
                       "finding files: '{}' matches '{}', which is not a regular file; use a pattern that matches only "
                       "files, for example '{}/*'",
                       pattern, path, S_ISDIR(info.st_mode) ? path : "folder");
    }
    return {};
}

Status find_files(const std::string& pattern, std::vector<std::string>& paths) {
    const GlobResult result(pattern);
    if (result.outcome() == GLOB_NOMATCH) {
        return failure(ErrorCode::invalid_argument,
                       "finding files: no file matches '{}'; check the path, and that every host sees these files",
                       pattern);
    }
    if (result.outcome() != 0) {
        return failure(ErrorCode::invalid_argument, "finding files: glob of '{}' failed: {}", pattern,
                       result.outcome() == GLOB_NOSPACE ? "not enough memory" : "a folder cannot be read");
    }
    for (const char* const path : result.paths()) {
        RUEDA_RETURN_IF_FAILED(check_is_file(path, pattern));
        paths.emplace_back(path);
    }
    return {};
}

}  // namespace

std::vector<Source> files(std::span<const std::string> patterns, FileCompression compression) {
    if (patterns.empty()) {
        throw InvalidArgument("finding files: the list of patterns is empty; expected at least one path or pattern");
    }
    std::vector<std::string> paths;
    for (const std::string& pattern : patterns) {
        find_files(pattern, paths).throw_if_failed();
    }
    // The order must be the same on every rank, so it does not depend on the locale or the file system.
    std::sort(paths.begin(), paths.end());
    paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
    std::vector<Source> sources;
    for (std::string& path : paths) {
        sources.push_back({std::move(path), SourceKind::file, compression, nullptr});
    }
    return sources;
}

std::vector<Source> files(const std::string& pattern, FileCompression compression) {
    return files(std::span(&pattern, 1), compression);
}

std::vector<Source> fifo(const std::string& path, FileCompression compression) {
    return {{path, SourceKind::fifo, compression, nullptr}};
}

std::vector<Source> sagemaker_channel(const std::string& channel, FileCompression compression) {
    return fifo("/opt/ml/input/data/" + channel + "_{epoch}", compression);
}

std::vector<Source> memory(std::string name, std::string bytes, FileCompression compression) {
    return {{std::move(name), SourceKind::memory, compression, std::make_shared<const std::string>(std::move(bytes))}};
}

}  // namespace rueda::data
