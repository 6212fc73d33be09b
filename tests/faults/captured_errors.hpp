// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "tests/support/ranks.hpp"

namespace rueda::tests {

/// Captures this process's standard error as long as the object exists.
class CapturedErrors {
public:
    CapturedErrors() : saved_(::dup(STDERR_FILENO)), file_(std::tmpfile()) { ::dup2(::fileno(file_), STDERR_FILENO); }
    ~CapturedErrors() {
        ::dup2(saved_, STDERR_FILENO);
        ::close(saved_);
        std::fclose(file_);
    }
    CapturedErrors(const CapturedErrors&) = delete;
    CapturedErrors& operator=(const CapturedErrors&) = delete;

    [[nodiscard]] std::string text() const {
        std::string all(static_cast<std::size_t>(::lseek(::fileno(file_), 0, SEEK_END)), '\0');
        const ssize_t count = ::pread(::fileno(file_), all.data(), all.size(), 0);
        all.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
        return all;
    }

private:
    int saved_;
    std::FILE* file_;
};

inline std::size_t occurrences(const std::string& text, const std::string& of) {
    std::size_t count = 0;
    for (std::size_t at = text.find(of); at != std::string::npos; at = text.find(of, at + 1)) {
        ++count;
    }
    return count;
}

inline void expect_part(const std::string& text, const std::string& part) {
    if (text.find(part) == std::string::npos) {
        throw RankCheckFailed(fmt::format("'{}' is not in: {}", part, text));
    }
}

}  // namespace rueda::tests
