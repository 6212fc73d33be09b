// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// The folder of a CheckpointManager: it makes, completes, lists and removes checkpoints. These functions work in one
/// process and start no thread, so tests can make each of their system calls fail.
#pragma once

#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "rueda/training/checkpoint_manager.hpp"

namespace rueda::training {

/// Values of the program must not have keys that begin with this text.
inline constexpr std::string_view kReservedPrefix = "rueda.";

/// Runs `body`. If `body` throws an exception, returns it as a Status.
template <class Body>
Status status_of(Body&& body) {
    try {
        body();
        return {};
    } catch (const Error& error) {
        return {error.code(), error.what()};
    } catch (const std::bad_alloc&) {
        return {ErrorCode::resource_exhausted, "the memory is used up; free memory or use fewer ranks on this host"};
    } catch (const std::exception& error) {
        return {ErrorCode::internal, error.what()};
    }
}

/// The facts about a checkpoint that its index contains, besides the list of the files.
struct CheckpointFacts {
    std::int64_t step = 0;
    int size = 1;
    std::optional<double> metric;
    Metadata values;
};

/// Creates the folder and the folders above it that are missing, and makes them durable. A folder that this process may
/// not read cannot be flushed; this is no error.
Status create_store(const std::filesystem::path& store);
/// Creates the folder of the next checkpoint. Its number is higher than all numbers in the store, so it is always
/// empty.
Result<std::filesystem::path> begin_checkpoint(const std::filesystem::path& store, std::int64_t step);
/// Writes the complete model as one file.
Status write_model(const std::filesystem::path& folder, std::span<const NamedTensor> model, std::int64_t step);
/// Writes the part of rank `rank`. If the folder is missing on another rank than rank 0, the error says that rank 0 may
/// have given up the checkpoint.
Status write_part(const std::filesystem::path& folder, std::span<const TensorPart> parts, std::int64_t step, int rank,
                  int size);
/// Ends a checkpoint to which rank `rank` cannot contribute. Rank 0 removes the checkpoint. Any other rank makes a file
/// in the checkpoint's folder. From this file, rank 0 learns of the failure when it calls missing_part().
void give_up_part(const std::filesystem::path& folder, int rank, int size) noexcept;
/// Looks for the parts of the ranks from `first` on, and returns the first rank whose part is not there yet, or `size`
/// if all are there. Fails if any rank has given up its part.
Result<int> missing_part(const std::filesystem::path& folder, int first, int size);
/// The names of the model's files: one file for each part, or a single file if `parts` is 0.
[[nodiscard]] std::vector<std::string> model_files(int parts);
/// Writes the state and the index, which completes the checkpoint. `parts` is 0 for a model in one file. Fails if a
/// file of the model is missing or damaged, or if rows of a tensor are missing.
Status complete_checkpoint(const std::filesystem::path& folder, const CheckpointFacts& facts,
                           std::span<const NamedTensor> state, int parts);
/// Removes a checkpoint. The index is removed first, so a checkpoint that is removed only in part counts as incomplete.
void remove_checkpoint(const std::filesystem::path& folder) noexcept;

struct StoreListing {
    std::vector<CheckpointInfo> complete;  ///< newest first
    std::vector<std::string> damaged;      ///< one line for each checkpoint that has an index but cannot be opened
};
/// Opens the files of all checkpoints, and checks their headers. A store that does not exist has no checkpoints. Fails
/// with ResourceExhausted if descriptors or memory are used up; such a failure does not mean that a checkpoint is
/// damaged.
Result<StoreListing> list_store(const std::filesystem::path& store);
/// Keeps the newest `max_to_keep` complete checkpoints and the checkpoint with the best metric, and removes all others.
/// Also removes what killed processes left behind. Removes nothing if no checkpoint is complete. If the system now
/// refuses to read a checkpoint's files, the checkpoint is kept, because it may be the best checkpoint. A later call
/// decides about it.
Status prune_store(const std::filesystem::path& store, int max_to_keep, BetterMetric better);
/// Returns the position of the checkpoint with the best metric, or nothing if none has a metric.
[[nodiscard]] std::optional<std::size_t> position_of_best(std::span<const CheckpointInfo> checkpoints,
                                                          BetterMetric better);

/// A complete checkpoint whose headers were read. Only the state's file stays open, because a checkpoint may have as
/// many files as a job has ranks, and most systems limit open files to 1024. Threads: any thread may call const
/// members.
class OpenedCheckpoint {
public:
    /// Opens the checkpoint. Checks the headers, and checks that all rows of all tensors are there.
    static Result<OpenedCheckpoint> open(const std::filesystem::path& folder);

    [[nodiscard]] const CheckpointInfo& info() const noexcept { return info_; }
    /// Returns the model's tensors, ordered by name. A tensor that was saved in parts has the shape of the whole.
    [[nodiscard]] std::vector<TensorInfo> model_tensors() const;
    [[nodiscard]] const std::vector<TensorInfo>& state_tensors() const { return state_->tensors(); }
    /// Checks that the checkpoint has the tensors of `parts`, with their dtypes and shapes.
    [[nodiscard]] Status check_parts(std::span<const TensorPart> parts) const;
    /// Checks that `model` has all tensors of the checkpoint.
    [[nodiscard]] Status check_nothing_else(std::span<const NamedTensor> model) const;
    [[nodiscard]] Status check_state(std::span<const NamedTensor> state) const;
    [[nodiscard]] Status read_parts(std::span<const TensorPart> parts) const;
    [[nodiscard]] Status read_state(std::span<const NamedTensor> state) const;

private:
    friend Status complete_checkpoint(const std::filesystem::path& folder, const CheckpointFacts& facts,
                                      std::span<const NamedTensor> state, int parts);
    /// The part of a tensor that is in one file.
    struct Piece {
        std::size_t file = 0;  ///< an index into paths_
        TensorInfo info;
        Range rows;
    };
    struct StoredParts {
        std::int64_t whole_rows = 0;
        std::vector<Piece> pieces;  ///< ordered by their first rows
    };

    /// Opens the named files of the model, and collects their rows.
    Status open_model(const std::vector<std::string>& names);
    Status add_file(const std::filesystem::path& path);
    [[nodiscard]] Status check_rows() const;
    [[nodiscard]] static Status read_piece(const Checkpoint& file, const Piece& piece, const TensorPart& part);

    CheckpointInfo info_;
    std::vector<std::filesystem::path> paths_;  ///< the paths of the model's files
    std::optional<Checkpoint> state_;
    std::map<std::string, StoredParts, std::less<>> tensors_;
};

/// Returns tensors as parts that have all rows.
[[nodiscard]] std::vector<TensorPart> as_whole_parts(std::span<const NamedTensor> tensors);

}  // namespace rueda::training
