// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::training {

/// A file that grows by pieces at its end. Threads: one at a time.
class AppendedFile {
public:
    /// Makes a file that begins with these bytes. An earlier file of the same path is replaced by one rename. So if the
    /// process is killed, the path has either the whole earlier file or the new one.
    [[nodiscard]] static Result<AppendedFile> begin(const std::filesystem::path& path, std::string_view beginning);

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    /// Gives the bytes to the operating system. If this fails, the part that was written is removed.
    [[nodiscard]] Status append(std::string_view bytes);
    /// Flushes the file to the disk, and closes it.
    [[nodiscard]] Status close();

private:
    AppendedFile(std::filesystem::path path, base::UniqueFd file, std::uint64_t size);

    std::filesystem::path path_;
    base::UniqueFd file_;
    std::uint64_t size_;  ///< the size of the pieces that were appended completely
};

/// Returns the complete lines of a file that an earlier job wrote; nothing if the file does not exist.
[[nodiscard]] Result<std::string> read_whole_lines(const std::filesystem::path& path);

}  // namespace rueda::training
