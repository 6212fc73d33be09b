// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/evaluate/checkpoint_folder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "launcher/hosts/network.hpp"

namespace rueda::launcher {

namespace {

namespace fs = std::filesystem;

// These names are part of the format of checkpoints (docs/checkpoints.md).
constexpr std::string_view kSavePrefix = "save-";
constexpr std::string_view kStepInfix = "-step-";
constexpr const char* kIndexFile = "state.safetensors";

bool take_beginning(std::string_view& text, std::string_view beginning) {
    if (!text.starts_with(beginning)) {
        return false;
    }
    text.remove_prefix(beginning.size());
    return true;
}

template <class Number>
bool take_number(std::string_view& text, Number& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number < Number{0}) {
        return false;
    }
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
}

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

std::optional<FoundCheckpoint> parse_checkpoint_name(std::string_view name) {
    FoundCheckpoint found;
    std::string_view rest = name;
    const bool is_one = take_beginning(rest, kSavePrefix) && take_number(rest, found.number) &&
                        take_beginning(rest, kStepInfix) && take_number(rest, found.step) && rest.empty();
    return is_one ? std::optional(found) : std::nullopt;
}

Result<std::vector<FoundCheckpoint>> find_checkpoints(const fs::path& folder, std::uint64_t last) {
    std::vector<FoundCheckpoint> checkpoints;
    std::error_code error;
    fs::directory_iterator entry(folder, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
        std::optional<FoundCheckpoint> found = parse_checkpoint_name(entry->path().filename().string());
        std::error_code ignored;
        // The index is written last, so a checkpoint without it is not complete.
        if (found && found->number > last && fs::exists(entry->path() / kIndexFile, ignored)) {
            found->path = entry->path();
            checkpoints.push_back(*std::move(found));
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
    // Two hosts that share the folder may have processes with the same id. If a killed process left files in this
    // folder, linking fails, and the program gets the checkpoint itself.
    const fs::path links = checkpoint.path.parent_path() / fmt::format("evaluate-{}-{}", host_name(), ::getpid());
    KeptCheckpoint kept(links / checkpoint.path.filename(), links);
    std::error_code error = link_files(checkpoint.path, kept.path_);
    // The training removes the index first. If the index is still there, the links to the other files are complete.
    std::error_code unreadable;
    if (!fs::exists(checkpoint.path / kIndexFile, unreadable) && !unreadable) {
        return failure(ErrorCode::invalid_argument,
                       "{} was removed before it could be evaluated; keep more checkpoints",
                       checkpoint.path.filename().string());
    }
    if (error || unreadable) {
        return KeptCheckpoint(checkpoint.path, {});  // the destructor of `kept` removes what was made
    }
    return Result<KeptCheckpoint>(std::move(kept));
}

KeptCheckpoint::KeptCheckpoint(KeptCheckpoint&& other) noexcept
    : path_(std::move(other.path_)), links_(std::exchange(other.links_, {})) {}

KeptCheckpoint::~KeptCheckpoint() {
    if (!links_.empty()) {
        std::error_code ignored;  // a folder that stays does no harm: the training ignores it
        fs::remove_all(links_, ignored);
    }
}

}  // namespace rueda::launcher
