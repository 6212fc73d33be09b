// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/status.hpp"

namespace rueda::training {

/// A file that appears at its path complete or not at all: written to <path>.partial, flushed to the disk, renamed over
/// the path, and the folder flushed, so that the new name survives a power failure too (POSIX promises the rename to be
/// atomic, and nothing about durability without fsync; see Pillai et al., OSDI 2014, for what file systems do then).
/// What was at the path before stays until the rename. Threads: one at a time.
class AtomicFile {
public:
    /// Opens <path>.partial, and empties one that a killed process left.
    static Result<AtomicFile> create(const std::filesystem::path& path);
    AtomicFile(AtomicFile&& other) noexcept;
    AtomicFile& operator=(AtomicFile&&) = delete;
    /// Without a successful commit, removes <path>.partial.
    ~AtomicFile();

    Status write(std::span<const std::byte> bytes);
    /// Replaces bytes that were written before, from `place` on.
    Status rewrite(std::uint64_t place, std::span<const std::byte> bytes);
    /// Nothing may be written afterwards.
    Status commit();

private:
    AtomicFile(std::filesystem::path path, std::filesystem::path partial, int descriptor);

    std::filesystem::path path_;
    std::filesystem::path partial_;
    int descriptor_;
    bool remove_ = true;
};

/// A failed call on `path`: "<path>: <call> failed: <reason> (errno N); <what to do>". ResourceExhausted where space or
/// descriptors ran out, else InvalidArgument.
Status file_failure(const std::filesystem::path& path, const char* call, int error);

}  // namespace rueda::training
