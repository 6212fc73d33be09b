// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace rueda::base {

/// A file that appears at its path only when it is complete. The content is written to <path><suffix>, flushed to the
/// disk, and renamed to the path. An earlier file at the path stays there until the rename. At the end the folder is
/// flushed, so that the new name survives a power failure. (POSIX guarantees that a rename is atomic, but guarantees
/// durability only with fsync. Pillai et al., OSDI 2014, describe the behaviour of file systems.) Threads: any thread,
/// but only one at a time.
class AtomicFile {
public:
    /// Opens <path><suffix>, and empties it if a killed process left such a file behind. If two writers may write the
    /// same path at the same time, they need different suffixes.
    static Result<AtomicFile> create(const std::filesystem::path& path, std::string_view suffix = ".partial");
    AtomicFile(AtomicFile&& other) noexcept;
    AtomicFile& operator=(AtomicFile&&) = delete;
    /// Removes <path><suffix>, unless commit() has succeeded.
    ~AtomicFile();

    Status write(std::span<const std::byte> bytes);
    /// Overwrites bytes that were already written. The offset of the first byte in the file is `place`.
    Status rewrite(std::uint64_t place, std::span<const std::byte> bytes);
    /// Completes the file and gives it its name. Nothing may be written afterwards.
    Status commit();

private:
    AtomicFile(std::filesystem::path path, std::filesystem::path partial, int descriptor);

    std::filesystem::path path_;
    std::filesystem::path partial_;
    int descriptor_;
    bool remove_ = true;
};

/// Makes the error for a failed system call on `path`: "<path>: <call> failed: <reason> (errno N); <what to do>". The
/// code is ResourceExhausted if space or descriptors ran out, otherwise InvalidArgument.
Status file_failure(const std::filesystem::path& path, const char* call, int error);

}  // namespace rueda::base
