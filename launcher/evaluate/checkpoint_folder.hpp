// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/status.hpp"

namespace rueda::launcher {

/// A checkpoint in the folder of a CheckpointManager.
struct FoundCheckpoint {
    std::filesystem::path path;
    std::uint64_t number = 0;  ///< the checkpoint's number among all checkpoints in the folder
    std::int64_t step = 0;     ///< the number of completed steps
};

/// Returns the complete checkpoints in the folder whose numbers are above `last`, ordered by number. If the folder does
/// not exist, there are none.
[[nodiscard]] Result<std::vector<FoundCheckpoint>> find_checkpoints(const std::filesystem::path& folder,
                                                                    std::uint64_t last);

/// Hard links to the files of a checkpoint. With them, the files stay readable when the training removes the
/// checkpoint. If the file system has no hard links, path() is the checkpoint itself. Threads: one.
class KeptCheckpoint {
public:
    /// Makes the links in a folder of its own beside the checkpoint. Fails if the checkpoint has been removed.
    static Result<KeptCheckpoint> keep(const FoundCheckpoint& checkpoint);
    KeptCheckpoint(KeptCheckpoint&& other) noexcept;
    KeptCheckpoint& operator=(KeptCheckpoint&&) = delete;
    /// Removes the links.
    ~KeptCheckpoint();

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

private:
    KeptCheckpoint(std::filesystem::path path, std::filesystem::path links)
        : path_(std::move(path)), links_(std::move(links)) {}

    std::filesystem::path path_;
    std::filesystem::path links_;  ///< the folder to remove; empty if there are no links
};

}  // namespace rueda::launcher
