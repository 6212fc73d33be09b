// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/evaluate/checkpoint_folder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/checkpoint_name.hpp"
#include "launcher/hosts/network.hpp"

namespace rueda::launcher {

namespace {

namespace fs = std::filesystem;

/// Makes hard links to all files of `from` in the new folder `to`.
std::error_code link_files(const fs::path& from, const fs::path& to) {
    std::error_code error;
    fs::create_directories(to, error);
    fs::directory_iterator entry;
    if (!error) {
        entry = fs::directory_iterator(from, error);
    }
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
        fs::create_hard_link(entry->path(), to / entry->path().filename(), error);
        if (error) {
            break;
        }
    }
    return error;
}

}  // namespace

Result<std::vector<FoundCheckpoint>> find_checkpoints(const fs::path& folder, std::uint64_t last) {
    std::vector<FoundCheckpoint> checkpoints;
    std::error_code error;
    fs::directory_iterator entry(folder, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
        const auto name = base::parse_checkpoint_name(entry->path().filename().string());
        std::error_code ignored;
        if (name && name->number > last && fs::exists(entry->path() / base::kCheckpointStateFile, ignored)) {
            checkpoints.push_back({entry->path(), name->number, name->step});
        }
    }
    if (error && error != std::errc::no_such_file_or_directory) {
        return failure(ErrorCode::invalid_argument, "reading the folder {} failed: {}", folder.string(),
                       error.message());
    }
    std::sort(checkpoints.begin(), checkpoints.end(),
              [](const FoundCheckpoint& a, const FoundCheckpoint& b) { return a.number < b.number; });
    return checkpoints;
}

Result<KeptCheckpoint> KeptCheckpoint::keep(const FoundCheckpoint& checkpoint) {
    // The name of the folder for the links contains the host, because two hosts that share the file system may have
    // processes with the same id. If a killed process left files in a folder with this name, the links cannot be made.
    // The program then gets the path of the checkpoint itself.
    const fs::path links = checkpoint.path.parent_path() / fmt::format("evaluate-{}-{}", host_name(), ::getpid());
    KeptCheckpoint kept(links / checkpoint.path.filename(), links);
    std::error_code error = link_files(checkpoint.path, kept.path_);
    // The training removes the index of a checkpoint before it removes the other files. So if the index still exists
    // after all links were made, no file was missing when the links were made.
    std::error_code unreadable;
    if (!fs::exists(checkpoint.path / base::kCheckpointStateFile, unreadable) && !unreadable) {
        return failure(ErrorCode::invalid_argument,
                       "{} was removed before it could be evaluated; keep more checkpoints",
                       checkpoint.path.filename().string());
    }
    if (error || unreadable) {
        return KeptCheckpoint(checkpoint.path, {});  // the destructor of `kept` removes the links that were made
    }
    return Result<KeptCheckpoint>(std::move(kept));
}

KeptCheckpoint::KeptCheckpoint(KeptCheckpoint&& other) noexcept
    : path_(std::move(other.path_)), links_(std::exchange(other.links_, {})) {}

KeptCheckpoint::~KeptCheckpoint() {
    if (!links_.empty()) {
        std::error_code ignored;  // a folder that cannot be removed does no harm, because the training ignores it
        fs::remove_all(links_, ignored);
    }
}

}  // namespace rueda::launcher
