// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The cache in a folder. Copies outlive the process, and several processes share them.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/system/atomic_file.hpp"
#include "base/unique_fd.hpp"
#include "data/sources/checked_copy.hpp"
#include "data/sources/source_cache.hpp"

namespace rueda::data {

namespace {

/// The lock file. It has one byte for each copy. A process locks this byte while it makes the copy. The system frees
/// the lock when the process ends, also after a crash.
constexpr const char* kLockFile = ".lock";

/// Locks the byte of the lock file that belongs to the copy. The result owns no descriptor if another reader holds the
/// lock.
Result<base::UniqueFd> lock_copy(const std::filesystem::path& folder, const std::string& copy) {
    const std::filesystem::path path = folder / kLockFile;
    base::UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!file.is_open()) {
        return base::file_failure(path, "open", errno);
    }
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(XXH3_64bits(copy.data(), copy.size()) >> 2);
    lock.l_len = 1;
    // A lock of F_OFD_SETLK belongs to the open file description and not to the process. So this lock also excludes
    // other threads of this process.
    if (::fcntl(file.value(), F_OFD_SETLK, &lock) == 0) {
        return file;
    }
    if (errno == EAGAIN || errno == EACCES) {
        return base::UniqueFd();
    }
    return base::file_failure(path, "fcntl(F_OFD_SETLK)", errno);
}

class FileEntry final : public CacheEntry {
public:
    FileEntry(base::UniqueFd lock, base::AtomicFile file) : lock_(std::move(lock)), file_(std::move(file)) {}

    Status add(std::span<const std::byte> bytes) override { return file_.add(bytes); }
    Status finish() override { return file_.finish(); }

private:
    base::UniqueFd lock_;  // declared before `file_`, so that an incomplete copy is removed before the lock is freed
    CheckedWriter file_;
};

class FolderCache final : public SourceCache {
public:
    explicit FolderCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

    /// If a file was changed or replaced, its copy gets another name, so an old copy is not used.
    std::string name_of_copy(const Source& source) const override {
        struct stat info {};
        std::error_code error;
        const std::filesystem::path path = std::filesystem::canonical(source.name, error);
        if (error || ::stat(path.c_str(), &info) != 0) {
            return "";
        }
        // The end of the name (`-checked`) stands for the format of the copy: copies with this name have checksums. The
        // beginning of the name is for people who look at the folder. It is cut, because names of files have at most
        // 255 bytes.
        constexpr std::size_t kShown = 100;
        const auto changed = static_cast<unsigned long long>(info.st_mtim.tv_sec) * 1'000'000'000ULL +
                             static_cast<unsigned long long>(info.st_mtim.tv_nsec);
        return fmt::format("{}.{:016x}-{:x}-{:x}-{}-checked", path.filename().string().substr(0, kShown),
                           XXH3_64bits(path.native().data(), path.native().size()), info.st_size, changed,
                           static_cast<int>(compression_of(source)));
    }

    void drop(const std::string& copy) override {
        // Another process may already have replaced the damaged copy by a new one. If the new one is deleted here, the
        // next epoch makes it again.
        std::error_code ignored;
        std::filesystem::remove(folder_ / copy, ignored);
    }

private:
    std::unique_ptr<ByteStream> find(const std::string& copy) override {
        struct stat info {};
        // A copy of another user is not used, because that user could have written anything.
        if (::lstat((folder_ / copy).c_str(), &info) != 0 || info.st_uid != ::geteuid()) {
            return nullptr;
        }
        auto stream = open_file(folder_ / copy);
        return stream.is_ok() ? read_checked(std::move(stream).value(), folder_ / copy) : nullptr;
    }

    Result<std::unique_ptr<CacheEntry>> begin(const std::string& copy) override {
        auto lock = lock_copy(folder_, copy);
        RUEDA_RETURN_IF_FAILED(lock.status());
        // If another reader has made the copy since find() was called, the next epoch uses this copy.
        if (!lock.value().is_open() || ::access((folder_ / copy).c_str(), F_OK) == 0) {
            return std::unique_ptr<CacheEntry>();
        }
        auto file = base::AtomicFile::create(folder_ / copy);
        RUEDA_RETURN_IF_FAILED(file.status());
        return std::unique_ptr<CacheEntry>(
            std::make_unique<FileEntry>(std::move(lock).value(), std::move(file).value()));
    }

    std::filesystem::path folder_;
};

}  // namespace

Result<std::unique_ptr<SourceCache>> make_folder_cache(const std::string& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) {
        return failure(ErrorCode::invalid_argument,
                       "pipeline: the folder of the cache, '{}', cannot be created: {}; name a folder that this user "
                       "may write to, or \"memory\"",
                       folder, error.message());
    }
    if (::access(folder.c_str(), W_OK | X_OK) != 0) {
        return failure(
            ErrorCode::invalid_argument,
            "pipeline: files cannot be written to the folder of the cache, '{}': {}; name a folder that this "
            "user may write to, or \"memory\"",
            folder, std::generic_category().message(errno));
    }
    return std::unique_ptr<SourceCache>(std::make_unique<FolderCache>(folder));
}

}  // namespace rueda::data
