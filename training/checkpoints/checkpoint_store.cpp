// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "training/checkpoints/checkpoint_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/checkpoint_name.hpp"
#include "base/system/atomic_file.hpp"
#include "base/unique_fd.hpp"
#include "training/checkpoints/checkpoint_index.hpp"

namespace rueda::training {
namespace {

namespace fs = std::filesystem;
using base::file_failure;

/// Flushes a folder, so that the names in it survive a power failure. If this process has no permission to open the
/// folder, returns `forbidden`.
Status flush_folder_unless(const fs::path& folder, const Status& forbidden) {
    const base::UniqueFd descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!descriptor.is_open()) {
        return errno == EACCES ? forbidden : file_failure(folder, "open", errno);
    }
    // EINVAL means that the file system has no fsync for folders; see base/system/atomic_file.cpp.
    return ::fsync(descriptor.value()) == 0 || errno == EINVAL ? Status() : file_failure(folder, "fsync", errno);
}

Status flush_store_folder(const fs::path& folder) {
    return flush_folder_unless(folder, file_failure(folder, "open", EACCES));
}

/// Flushes a folder above the store. If this process has no permission to open the folder (for example, if its mode is
/// 711), does nothing and returns no error.
Status flush_outer_folder(const fs::path& folder) { return flush_folder_unless(folder, {}); }

/// A folder in the store, with the number and the step in its name.
struct SaveFolder {
    fs::path path;
    std::uint64_t number = 0;
    std::int64_t step = 0;
};

std::optional<SaveFolder> parse_save_folder(const fs::path& path) {
    const auto name = base::parse_checkpoint_name(path.filename().string());
    return name ? std::optional(SaveFolder{path, name->number, name->step}) : std::nullopt;
}

/// Returns the checkpoints' folders in the store, newest first, complete or not.
Result<std::vector<SaveFolder>> save_folders(const fs::path& store) {
    std::vector<SaveFolder> folders;
    std::error_code error;
    fs::directory_iterator entry(store, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
        if (const std::optional<SaveFolder> folder = parse_save_folder(entry->path())) {
            folders.push_back(*folder);
        }
    }
    if (error && error != std::errc::no_such_file_or_directory) {
        return file_failure(store, "reading the folder", error.value());
    }
    std::sort(folders.begin(), folders.end(), [](const SaveFolder& a, const SaveFolder& b) {
        return std::pair(a.number, a.step) > std::pair(b.number, b.step);
    });
    return folders;
}

/// Returns whether the checkpoint has an index. If the file system cannot tell, returns true.
bool has_index(const fs::path& folder) {
    return ::access((folder / base::kCheckpointStateFile).c_str(), F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/// Opens a checkpoint, and returns the facts about it. If it is damaged, returns the error. If it has no index, returns
/// nothing.
std::optional<Result<CheckpointInfo>> look_at(const fs::path& folder) {
    if (!has_index(folder)) {
        return std::nullopt;
    }
    Result<OpenedCheckpoint> opened = OpenedCheckpoint::open(folder);
    return opened.is_ok() ? Result<CheckpointInfo>(opened.value().info()) : Result<CheckpointInfo>(opened.status());
}

/// Returns whether the system refuses to read a file of the checkpoint, for example because the disk fails temporarily
/// or no descriptors are left. A damaged file counts as readable, because the system can read it.
bool cannot_be_read_now(const fs::path& folder) {
    std::error_code error;
    fs::directory_iterator entry(folder, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
        const base::UniqueFd file(::open(entry->path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
        std::array<char, 4096> beginning;
        if ((!file.is_open() && errno != ENOENT) ||
            (file.is_open() && ::pread(file.value(), beginning.data(), beginning.size(), 0) < 0 && errno != EISDIR)) {
            return true;
        }
    }
    return static_cast<bool>(error);
}

/// Called for an old checkpoint that could not be opened. Returns whether the checkpoint must be kept: its files may be
/// unreadable only temporarily, and it may be the best checkpoint.
bool may_be_intact(const fs::path& folder) {
    const std::optional<Result<CheckpointInfo>> again = look_at(folder);
    return again &&
           (again->is_ok() || again->status().code() == ErrorCode::resource_exhausted || cannot_be_read_now(folder));
}

std::string part_name(int rank, int size) { return fmt::format("part-{}-of-{}.safetensors", rank, size); }

/// The file by which a rank tells rank 0 that it could not write its part.
fs::path failure_mark(const fs::path& folder, int rank, int size) {
    return folder / (part_name(rank, size) + ".failed");
}

bool is_there(const fs::path& path) { return ::access(path.c_str(), F_OK) == 0; }

bool is_better(double metric, double other, BetterMetric better) {
    return better == BetterMetric::lower ? metric < other : metric > other;
}

}  // namespace

Status create_store(const fs::path& store) {
    fs::path outer;
    fs::path folder;
    for (const fs::path& name : fs::absolute(store)) {
        if (name.empty() || name == ".") {
            continue;
        }
        outer = folder;
        folder /= name;
        std::error_code error;
        if (fs::is_directory(folder, error)) {
            continue;
        }
        if (::mkdir(folder.c_str(), 0777) == 0) {
            RUEDA_RETURN_IF_FAILED(flush_outer_folder(outer));
        } else if (const int reason = errno; !fs::is_directory(folder, error)) {  // no error if another process has
                                                                                  // made the folder
            return file_failure(store, "mkdir", reason);
        }
    }
    // The flush is needed even if the store exists: the process that made it may have been killed before its flush.
    return outer.empty() ? Status() : flush_outer_folder(outer);
}

Result<fs::path> begin_checkpoint(const fs::path& store, std::int64_t step) {
    const Result<std::vector<SaveFolder>> folders = save_folders(store);
    RUEDA_RETURN_IF_FAILED(folders.status());
    const std::uint64_t number = folders.value().empty() ? 1 : folders.value().front().number + 1;
    fs::path folder = store / base::format_checkpoint_name({number, step});
    if (::mkdir(folder.c_str(), 0777) != 0) {
        return file_failure(folder, "mkdir", errno);
    }
    if (Status flushed = flush_store_folder(store); !flushed.is_ok()) {
        remove_checkpoint(folder);
        return flushed;
    }
    return folder;
}

Status write_model(const fs::path& folder, std::span<const NamedTensor> model, std::int64_t step) {
    return status_of([&] {
        write_checkpoint(folder / model_files(0).front(), model, {{std::string(kStepKey), std::to_string(step)}});
    });
}

Status write_part(const fs::path& folder, std::span<const TensorPart> parts, std::int64_t step, int rank, int size) {
    std::vector<NamedTensor> tensors;
    nlohmann::json rows = nlohmann::json::object();
    for (const TensorPart& part : parts) {
        tensors.push_back({part.name, part.tensor});
        rows[part.name] = {part.rows.begin, part.rows.end, part.whole_rows};
    }
    Status written = status_of([&] {
        write_checkpoint(folder / part_name(rank, size), tensors,
                         {{std::string(kStepKey), std::to_string(step)}, {std::string(kRowsKey), rows.dump()}});
    });
    if (!written.is_ok() && rank != 0 && !is_there(folder)) {
        return failure(ErrorCode::invalid_argument,
                       "the folder {} is missing. Either rank 0 has given up this checkpoint, and its output gives the "
                       "reason; or this rank does not share the folder with rank 0",
                       folder.string());
    }
    return written;
}

void give_up_part(const fs::path& folder, int rank, int size) noexcept {
    if (rank == 0) {
        remove_checkpoint(folder);
        return;
    }
    (void)status_of([&] {
        // This file tells rank 0 about the failure. Without this file, rank 0 waits until its time limit.
        const base::UniqueFd file(
            ::open(failure_mark(folder, rank, size).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    });
}

Result<int> missing_part(const fs::path& folder, int first, int size) {
    int missing = first;
    while (missing < size && is_there(folder / part_name(missing, size))) {
        ++missing;
    }
    if (missing < size && !is_there(folder)) {
        return failure(ErrorCode::invalid_argument,
                       "the folder {} was removed before all parts were written: perhaps a newer checkpoint was "
                       "completed before it",
                       folder.string());
    }
    // If a rank could not flush its part to the disk, the part and the rank's failure mark may both exist. So this loop
    // looks for the failure marks of all ranks.
    for (int rank = 1; rank < size; ++rank) {
        if (is_there(failure_mark(folder, rank, size))) {
            return failure(ErrorCode::invalid_argument,
                           "rank {} could not write its part; the output of rank {} gives the reason", rank, rank);
        }
    }
    return missing;
}

std::vector<std::string> model_files(int parts) {
    if (parts == 0) {
        return {"model.safetensors"};
    }
    std::vector<std::string> names;
    for (int rank = 0; rank < parts; ++rank) {
        names.push_back(part_name(rank, parts));
    }
    return names;
}

Status complete_checkpoint(const fs::path& folder, const CheckpointFacts& facts, std::span<const NamedTensor> state,
                           int parts) {
    const std::vector<std::string> names = model_files(parts);
    OpenedCheckpoint model;
    model.info_.folder = folder;
    model.info_.step = facts.step;
    RUEDA_RETURN_IF_FAILED(model.open_model(names));
    const Result<Metadata> index = make_index(folder, facts, names);
    RUEDA_RETURN_IF_FAILED(index.status());
    return status_of([&] { write_checkpoint(folder / base::kCheckpointStateFile, state, index.value()); });
}

void remove_checkpoint(const fs::path& folder) noexcept {
    // If the removal fails, an incomplete checkpoint is left behind. All functions ignore it, and the next pruning
    // removes it.
    (void)status_of([&] {
        ::unlink((folder / base::kCheckpointStateFile).c_str());
        std::error_code ignored;
        fs::remove_all(folder, ignored);
    });
}

Result<StoreListing> list_store(const fs::path& store) {
    const Result<std::vector<SaveFolder>> folders = save_folders(store);
    RUEDA_RETURN_IF_FAILED(folders.status());
    StoreListing listing;
    for (const SaveFolder& folder : folders.value()) {
        const std::optional<Result<CheckpointInfo>> found = look_at(folder.path);
        if (found && found->is_ok()) {
            listing.complete.push_back(found->value());
        } else if (found && found->status().code() == ErrorCode::resource_exhausted) {
            return found->status();
        } else if (found) {
            listing.damaged.push_back(found->status().message());
        }
    }
    return listing;
}

std::optional<std::size_t> position_of_best(std::span<const CheckpointInfo> checkpoints, BetterMetric better) {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < checkpoints.size(); ++i) {
        if (checkpoints[i].metric && (!best || is_better(*checkpoints[i].metric, *checkpoints[*best].metric, better))) {
            best = i;
        }
    }
    return best;
}

Status prune_store(const fs::path& store, int max_to_keep, BetterMetric better) {
    const Result<StoreListing> listing = list_store(store);
    RUEDA_RETURN_IF_FAILED(listing.status());
    const std::vector<CheckpointInfo>& complete = listing.value().complete;
    if (complete.empty()) {
        return {};
    }
    const std::optional<std::size_t> best = position_of_best(complete, better);
    const std::size_t oldest = std::min(complete.size(), static_cast<std::size_t>(max_to_keep)) - 1;
    const Result<std::vector<SaveFolder>> folders = save_folders(store);
    RUEDA_RETURN_IF_FAILED(folders.status());
    const auto number_at = [&](std::size_t position) {
        const std::optional<SaveFolder> folder = parse_save_folder(complete[position].folder);
        return folder ? folder->number : 0;
    };
    for (const SaveFolder& folder : folders.value()) {
        // A damaged checkpoint becomes old like a good checkpoint, because only the numbers are compared.
        const bool is_old = folder.number < number_at(oldest);
        const bool was_left_behind = folder.number < number_at(0) && !has_index(folder.path);
        const bool is_best = best && folder.number == number_at(*best);
        const bool was_opened = std::any_of(complete.begin(), complete.end(),
                                            [&](const CheckpointInfo& each) { return each.folder == folder.path; });
        if (!is_best && (is_old || was_left_behind) && (was_opened || !may_be_intact(folder.path))) {
            remove_checkpoint(folder.path);
        }
    }
    return {};
}

}  // namespace rueda::training
