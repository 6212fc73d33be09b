// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Keeps the checkpoints of a job in one folder, and writes them in the background. Each checkpoint is a folder with
/// the name `save-<number>-step-<step>`. It contains the model in safetensors files (rueda/training/checkpoint.hpp) and
/// the file state.safetensors. This file has the job's other tensors, and the index: the step, the number of ranks, the
/// metric, the program's values, and the names and sizes of the model's files. state.safetensors is written last, so a
/// folder without this file is incomplete and is ignored.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rueda/training/checkpoint.hpp"
#include "rueda/training/sampler.hpp"

namespace rueda::training {

/// Which of two metrics is better, for example `lower` for a loss and `higher` for an accuracy.
enum class BetterMetric : std::int32_t { lower, higher };

/// What save() does while this manager is still writing the previous checkpoint.
enum class WhenBusy : std::int32_t {
    skip,  ///< save() saves nothing and prints a warning, so training never waits
    wait,  ///< save() waits until the previous checkpoint is complete
};

struct CheckpointManagerOptions {
    std::filesystem::path folder;  ///< the folder of the checkpoints; the manager creates it if it does not exist
    /// save_when_due() saves after every step whose number is a multiple of this; if 0, only `every` decides
    std::int64_t every_steps = 0;
    std::chrono::seconds every{0};  ///< save_when_due() saves if this time has passed since the last save; if 0,
                                    ///< only `every_steps` decides
    int max_to_keep = 3;            ///< number of newest complete checkpoints that are kept; ≥ 1
    BetterMetric better = BetterMetric::lower;  ///< decides which checkpoint has the best metric; this checkpoint is
                                                ///< kept in addition to the newest ones
    WhenBusy when_busy = WhenBusy::skip;
    std::chrono::seconds part_timeout{600};  ///< how long rank 0 waits for the parts of the other ranks
    /// The manager calls this function with one line of text if it could not save a checkpoint, or if it has skipped a
    /// damaged checkpoint. The line has no newline. The function is called by the manager's thread, or by a thread of
    /// the program that saves or restores, but never by two threads at the same time. The function must not use the
    /// manager. By default the line is logged as a warning.
    std::function<void(std::string_view)> warn = nullptr;
};

/// The rows of a tensor that this rank holds. A tensor is divided along its first dimension. A scalar
/// counts as one row.
struct TensorPart {
    std::string name;             ///< the same name on all ranks that hold rows of the tensor
    TensorView tensor;            ///< the rows of this rank
    Range rows;                   ///< the position of this rank's rows in the whole tensor
    std::int64_t whole_rows = 0;  ///< the number of rows of the whole tensor
};

/// Divides the rows of tensors that are equal on all ranks, so that each rank writes a part of the rows. Rank `rank`
/// gets the rows shard(rows, rank, size); a scalar goes to rank 0. Throws InvalidArgument unless 0 ≤ rank < size.
[[nodiscard]] RUEDA_API std::vector<TensorPart> split_rows(std::span<const NamedTensor> tensors, int rank, int size);

/// The data that save() writes. The tensors must be in host memory.
struct Snapshot {
    std::int64_t step = 0;                    ///< the number of completed steps
    std::span<const NamedTensor> model = {};  ///< the model; empty for save_parts()
    std::span<const NamedTensor> state = {};  ///< other tensors that are equal on all ranks: optimizer, random numbers
    Metadata values = {};                     ///< texts of the program; the keys must not begin with "rueda."
    std::optional<double> metric =
        {};  ///< the metric that decides which checkpoint is the best, for example the loss of an evaluation
};

/// A complete checkpoint in the folder of a manager.
struct CheckpointInfo {
    std::filesystem::path folder;  ///< the checkpoint's own folder
    std::int64_t step = 0;         ///< the number of completed steps
    int size = 0;                  ///< the number of ranks of the job that saved the checkpoint
    std::optional<double> metric;
    Metadata values;
};

/// Which checkpoint restore() takes.
enum class WhichCheckpoint : std::int32_t { newest, best };

/// Saves and restores checkpoints of a job. Create it after rueda::init(), on all ranks, with the same options.
///
/// save() copies the tensors and returns; a thread writes the copy. If writing fails, for example because the disk is
/// full, training continues, the reason is printed in one line, and the earlier checkpoints stay. restore() checks the
/// checksums. If the newest checkpoint is damaged, restore() prints one line and takes the next older checkpoint.
///
/// A CheckpointManager belongs to one job. In an elastic job, make a new manager in each generation, because the ranks
/// change.
///
/// Threads: one thread at a time may use an object. The object starts one thread for each checkpoint.
class RUEDA_API CheckpointManager {
public:
    /// Creates the folder on rank 0. All ranks must construct the object. Throws InvalidArgument on all ranks if an
    /// option is out of its range, or if the folder cannot be created.
    explicit CheckpointManager(const CheckpointManagerOptions& options);
    CheckpointManager(const CheckpointManager&) = delete;
    CheckpointManager& operator=(const CheckpointManager&) = delete;
    /// Waits until the checkpoint that is being written is complete. If the object is destroyed because of an
    /// exception, rank 0 does not wait for parts of other ranks.
    ~CheckpointManager();

    /// Claims the folder for this job, so that no other job saves into it at the same time. The claim ends when
    /// the manager is destroyed or the process of rank 0 ends. All ranks must call this function. A program need not
    /// call it, because the first save claims the folder. But then the program learns only at the first save that
    /// another job uses the folder. Restoring needs no claim. Throws InvalidArgument on all ranks if another job has
    /// claimed the folder; the text names that job's process and host. If that process is on another host, rank 0 first
    /// waits up to two minutes, because NFS keeps the lock of a dead machine for about 90 seconds.
    void claim();
    /// Returns whether a checkpoint is due after `step` completed steps. If CheckpointManagerOptions::every is set, the
    /// result depends on this rank's clock.
    [[nodiscard]] bool is_due(std::int64_t step) const;
    /// Starts to save a checkpoint. Rank 0 copies the tensors, and a thread of rank 0 writes the copy. The other ranks
    /// return at once. Returns whether this rank started a save. Throws InvalidArgument in five cases: the step is
    /// negative, the key of a value begins with "rueda.", a metric is not finite, another job saves into this folder
    /// (see claim()), or the rank or the size of the job has changed since the manager was made. A failure of the file
    /// system causes only a warning.
    bool save(const Snapshot& snapshot);
    /// Calls save() if a checkpoint is due after `snapshot.step` completed steps. If CheckpointManagerOptions::every is
    /// set, rank 0's clock decides.
    bool save_when_due(const Snapshot& snapshot);

    /// Starts to save a checkpoint to which each rank contributes its parts. All ranks must call this function, and
    /// must share the folder. Each rank copies its parts, and a thread of the rank writes the copy. When rank 0 has
    /// found the parts of all ranks, and these contain all rows of each tensor, rank 0 also writes `snapshot.state`.
    /// This call exchanges a few bytes among the ranks. Returns whether a save was started; the result is the same on
    /// all ranks. If a rank cannot write its part, that rank and rank 0 print a warning. If rank 0 gives up the
    /// checkpoint while another rank still writes its part, that rank prints a warning, too. Throws InvalidArgument as
    /// save() does. Also throws it if a range of rows does not fit its tensor. If one rank finds such an error, all
    /// ranks throw it.
    bool save_parts(std::span<const TensorPart> parts, const Snapshot& snapshot);
    /// Calls save_parts() if a checkpoint is due. If CheckpointManagerOptions::every is set, rank 0 broadcasts its
    /// decision in each call.
    bool save_parts_when_due(std::span<const TensorPart> parts, const Snapshot& snapshot);

    /// Waits until the thread of this rank has written its checkpoint. When this function returns on rank 0, the
    /// checkpoint is complete.
    void wait();
    /// Waits as wait() does. Returns why the last save of this rank failed, or an empty text if the last save
    /// succeeded.
    [[nodiscard]] std::string last_failure();

    /// Returns the complete checkpoints in the folder, newest first. The headers of all files were checked, but not the
    /// data. This function looks only at this rank's file system.
    [[nodiscard]] std::vector<CheckpointInfo> checkpoints() const;

    /// Restores a checkpoint that any number of ranks saved, with save() or with save_parts(). Rank 0 reads, and then
    /// broadcasts the tensors. All ranks must call this function. If `state` is empty, the state's tensors are not
    /// read. If the folder has no complete checkpoint, returns nothing and leaves the tensors unchanged. Throws
    /// InvalidArgument on all ranks if the checkpoint belongs to another model, or if all checkpoints are damaged.
    /// After an error, the contents of the tensors are undefined.
    std::optional<CheckpointInfo> restore(std::span<const NamedTensor> model, std::span<const NamedTensor> state = {},
                                          WhichCheckpoint which = WhichCheckpoint::newest);
    /// Restores parts of tensors, as restore() does for whole tensors. Each rank reads the rows that it needs, so each
    /// rank must have access to the folder. The rows may be divided among the ranks in another way than when they were
    /// saved. `parts` may leave out tensors of the checkpoint: a rank may need only a few tensors, and does not know
    /// which tensors the other ranks need. A rank that needs some rows of a stored part reads the whole part, because
    /// the checksum covers the part. This needs memory for the largest such part.
    std::optional<CheckpointInfo> restore_parts(std::span<const TensorPart> parts,
                                                std::span<const NamedTensor> state = {},
                                                WhichCheckpoint which = WhichCheckpoint::newest);

private:
    class Implementation;
    std::unique_ptr<Implementation> implementation_;
};

}  // namespace rueda::training
