// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/status.hpp"

namespace rueda::base {

/// A file that appears at its path complete or not at all. It is written to <path>.partial, flushed to the disk, and
/// renamed over the path. Then the folder is flushed, so that the new name survives a power failure too. (POSIX
/// promises that the rename is atomic, and promises no durability without fsync; Pillai et al., OSDI 2014, describe
/// what file systems do.) What was at the path before stays until the rename. Threads: one at a time.
class AtomicFile {
public:
    /// Opens <path>.partial, and empties it if a killed process left one.
    static Result<AtomicFile> create(const std::filesystem::path& path);
    AtomicFile(AtomicFile&& other) noexcept;
    AtomicFile& operator=(AtomicFile&&) = delete;
    /// Removes <path>.partial, unless commit succeeded.
    ~AtomicFile();

    Status write(std::span<const std::byte> bytes);
    /// Replaces bytes that were written before, from `place` on.
    Status rewrite(std::uint64_t place, std::span<const std::byte> bytes);
    /// After commit nothing may be written.
    Status commit();

private:
    AtomicFile(std::filesystem::path path, std::filesystem::path partial, int descriptor);

    std::filesystem::path path_;
    std::filesystem::path partial_;
    int descriptor_;
    bool remove_ = true;
};

/// A failed call on `path`: "<path>: <call> failed: <reason> (errno N); <what to do>". ResourceExhausted if space or
/// descriptors ran out, else InvalidArgument.
Status file_failure(const std::filesystem::path& path, const char* call, int error);

}  // namespace rueda::base
