// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/system/atomic_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace rueda::base {
namespace {

/// The maximum number of bytes of one write. Linux moves at most 0x7ffff000 bytes in one call (write(2)).
constexpr std::size_t kMaxWrite = std::size_t{1} << 30;

const char* advice(int error) {
    switch (error) {
        case ENOSPC:
        case EDQUOT:
        case EFBIG:
            return "make room there or name another folder";
        case EACCES:
        case EPERM:
        case EROFS:
            return "name a folder that this user may write to";
        case ENOENT:
        case ENOTDIR:
            return "name an existing folder";
        case EISDIR:
            return "name a file, not a folder";
        default:
            return "check the disk or name another folder";
    }
}

bool is_exhaustion(int error) {
    return error == ENOSPC || error == EDQUOT || error == EFBIG || error == EMFILE || error == ENFILE ||
           error == ENOMEM;
}

Status flush_folder(const std::filesystem::path& path) {
    const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) {
        return file_failure(folder, "open", errno);
    }
    const int result = ::fsync(descriptor);
    const int error = errno;
    ::close(descriptor);
    // EINVAL means that the file system has no fsync for folders; some FUSE file systems have none. Nothing more can be
    // done on such a file system, so EINVAL counts as success.
    return result == 0 || error == EINVAL ? Status() : file_failure(folder, "fsync", error);
}

}  // namespace

Status file_failure(const std::filesystem::path& path, const char* call, int error) {
    const ErrorCode code = is_exhaustion(error) ? ErrorCode::resource_exhausted : ErrorCode::invalid_argument;
    return failure(code, "{}; {}", system_failure(code, fmt::format("{}: {}", path.string(), call), error).message(),
                   advice(error));
}

AtomicFile::AtomicFile(std::filesystem::path path, std::filesystem::path partial, int descriptor)
    : path_(std::move(path)), partial_(std::move(partial)), descriptor_(descriptor) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      partial_(std::move(other.partial_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      remove_(std::exchange(other.remove_, false)) {}

AtomicFile::~AtomicFile() {
    if (descriptor_ >= 0) {
        ::close(descriptor_);
    }
    if (remove_) {
        ::unlink(partial_.c_str());
    }
}

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path, std::string_view suffix) {
    struct stat existing {};
    if (::stat(path.c_str(), &existing) == 0 && S_ISDIR(existing.st_mode)) {
        // `path` is a folder. Without this check, the error would come late, from the rename after all writes.
        return file_failure(path, "open", EISDIR);
    }
    std::filesystem::path partial = path;
    partial += suffix;
    const int descriptor = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor < 0) {
        return file_failure(partial, "open", errno);
    }
    return AtomicFile(path, std::move(partial), descriptor);
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMaxWrite));
        if (written < 0 && errno != EINTR) {
            return file_failure(partial_, "write", errno);
        }
        bytes = bytes.subspan(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
    }
    return {};
}

Status AtomicFile::rewrite(std::uint64_t place, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written =
            ::pwrite(descriptor_, bytes.data(), std::min(bytes.size(), kMaxWrite), static_cast<off_t>(place));
        if (written < 0 && errno != EINTR) {
            return file_failure(partial_, "write", errno);
        }
        const auto done = static_cast<std::size_t>(std::max<ssize_t>(written, 0));
        place += done;
        bytes = bytes.subspan(done);
    }
    return {};
}

Status AtomicFile::commit() {
    if (::fsync(descriptor_) != 0) {
        return file_failure(partial_, "fsync", errno);
    }
    // Some network file systems report a full quota only at close().
    if (::close(std::exchange(descriptor_, -1)) != 0) {
        return file_failure(partial_, "close", errno);
    }
    if (::rename(partial_.c_str(), path_.c_str()) != 0) {
        return file_failure(path_, "rename", errno);
    }
    remove_ = false;
    return flush_folder(path_);
}

}  // namespace rueda::base
