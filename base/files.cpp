// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace rueda::base {

namespace {

// The maximum size, in bytes, of a file that is read. The largest known file is /proc/self/mountinfo: about 1 MiB on a
// machine with thousands of containers.
constexpr std::size_t kLargestFile = std::size_t{4} * 1024 * 1024;

/// Appends the rest of the file to `text`. Returns false if the file cannot be read to its end or is too large.
bool append_all(int descriptor, std::string& text) {
    std::array<char, 16384> part{};
    for (;;) {
        const ssize_t count = read(descriptor, part.data(), part.size());
        if (count == 0) {
            return true;
        }
        if (count > 0) {
            text.append(part.data(), static_cast<std::size_t>(count));
        }
        if ((count < 0 && errno != EINTR) || text.size() > kLargestFile) {
            return false;
        }
    }
}

}  // namespace

std::optional<std::string> read_small_file(const std::string& path) {
    const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (descriptor < 0) {
        return std::nullopt;
    }
    std::string text;
    const bool complete = append_all(descriptor, text);
    close(descriptor);
    return complete ? std::optional(std::move(text)) : std::nullopt;
}

}  // namespace rueda::base
