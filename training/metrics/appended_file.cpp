// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "training/metrics/appended_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "base/system/atomic_file.hpp"

namespace rueda::training {

AppendedFile::AppendedFile(std::filesystem::path path, base::UniqueFd file, std::uint64_t size)
    : path_(std::move(path)), file_(std::move(file)), size_(size) {}

Result<AppendedFile> AppendedFile::begin(const std::filesystem::path& path, std::string_view beginning) {
    auto made = base::AtomicFile::create(path);
    RUEDA_RETURN_IF_FAILED(made.status());
    RUEDA_RETURN_IF_FAILED(made.value().write(std::as_bytes(std::span(beginning))));
    RUEDA_RETURN_IF_FAILED(made.value().commit());
    base::UniqueFd file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    if (!file.is_open()) {
        return base::file_failure(path, "open", errno);
    }
    return AppendedFile(path, std::move(file), beginning.size());
}

Status AppendedFile::append(std::string_view bytes) {
    std::string_view left = bytes;
    while (!left.empty()) {
        const ssize_t written = ::write(file_.value(), left.data(), left.size());
        if (written < 0 && errno != EINTR) {
            Status failed = base::file_failure(path_, "write", errno);
            // If ftruncate() fails, too, the reader of the file finds a damaged line. In any case, the caller gets the
            // error of write().
            [[maybe_unused]] const int result = ::ftruncate(file_.value(), static_cast<off_t>(size_));
            return failed;
        }
        left.remove_prefix(written < 0 ? 0 : static_cast<std::size_t>(written));
    }
    size_ += bytes.size();
    return {};
}

Status AppendedFile::close() {
    // EINVAL means that the file system cannot flush, as for a folder in base/system/atomic_file.cpp.
    if (::fsync(file_.value()) != 0 && errno != EINVAL) {
        return base::file_failure(path_, "fsync", errno);
    }
    // Some network file systems report a full quota only at close().
    if (::close(file_.release()) != 0) {
        return base::file_failure(path_, "close", errno);
    }
    return {};
}

Result<std::string> read_whole_lines(const std::filesystem::path& path) {
    const base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file.is_open()) {
        return errno == ENOENT ? Result<std::string>(std::string()) : base::file_failure(path, "open", errno);
    }
    std::string text;
    std::array<char, 1 << 16> piece{};
    while (true) {
        const ssize_t count = ::read(file.value(), piece.data(), piece.size());
        if (count < 0 && errno != EINTR) {
            return base::file_failure(path, "read", errno);
        }
        if (count == 0) {
            break;
        }
        text.append(piece.data(), count < 0 ? 0 : static_cast<std::size_t>(count));
    }
    std::erase(text, '\0');  // after a power failure, a file can contain bytes of value 0
    text.resize(text.rfind('\n') + 1);
    return text;
}

}  // namespace rueda::training
