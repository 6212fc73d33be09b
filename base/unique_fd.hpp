// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace rueda::base {

/// Owns a file descriptor, or none (−1). Threads: one at a time; ownership may move to another thread.
class UniqueFd {
public:
    UniqueFd() = default;
    explicit UniqueFd(int fd) noexcept : fd_(fd) {}
    UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
    UniqueFd& operator=(UniqueFd&& other) noexcept {
        if (this != &other) {
            reset(other.release());
        }
        return *this;
    }
    UniqueFd(const UniqueFd&) = delete;
    UniqueFd& operator=(const UniqueFd&) = delete;
    ~UniqueFd() { reset(); }

    [[nodiscard]] int value() const noexcept { return fd_; }
    [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }
    [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
    /// If close() fails with EINTR, it must not be called again: Linux has already freed the number, and another thread
    /// may be using it.
    void reset(int fd = -1) noexcept {
        if (const int old = std::exchange(fd_, fd); old >= 0) {
            ::close(old);
        }
    }

private:
    int fd_ = -1;
};

/// Returns a duplicate of the descriptor, with close-on-exec set. If the system refuses to make a duplicate, the result
/// owns no descriptor, and errno gives the reason.
[[nodiscard]] inline UniqueFd duplicate(int fd) noexcept { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

}  // namespace rueda::base
