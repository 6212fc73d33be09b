// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Lets a job that was killed continue where it stopped. One line of the training program is enough:
///
///     for (const std::int64_t step : rueda::training::BackupAndRestore(
///              1000, {.folder = "backup", .every_steps = 100}, model, optimizer)) { … }
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "rueda/training/checkpoint_manager.hpp"

namespace rueda::training {

/// Texts of the program that are saved beside the tensors, for example a position in a file.
struct BackupValues {
    /// This function is called when a checkpoint is due, and returns the texts to save. Only rank 0 calls it, so it
    /// must not call collective functions.
    std::function<Metadata()> save = nullptr;
    /// This function is called on all ranks if a checkpoint was restored. Its argument has the saved texts.
    std::function<void(const Metadata&)> restored = nullptr;
};

/// The steps that remain of a training run, as a range for a `for` loop. All ranks must use this class, with the same
/// options, and with tensors of the same names.
///
/// The constructor claims the folder (CheckpointManager::claim()) and restores the newest checkpoint. If there is no
/// checkpoint, the constructor sends the tensors of rank 0 to all ranks. The loop then begins at the first step that
/// the checkpoint does not contain. After each step, a checkpoint is saved if one is due. After the last step, a
/// checkpoint is saved in any case, and rank 0 waits until it is complete. A loop that is left early saves nothing
/// more.
///
/// A resumed run computes the same values as an uninterrupted run under one condition: everything that a step uses must
/// be computed from the step's number, or must be in `model`, `state` or `values`. For data, use Sampler: step s trains
/// on batch s % sampler.batches() of epoch s / sampler.batches(). The resumed job may have another number of ranks than
/// before. The sums of gradients are then rounded in another order. Threads: one thread at a time may use an object.
class RUEDA_API BackupAndRestore {
public:
    /// `steps` is the number of steps of the whole run. `checkpoints` says where and how often to save. `state` has the
    /// tensors of the optimizer, random numbers (Random::state()) and counters. The tensors must live as long as the
    /// object. Throws as CheckpointManager and restore() do. Also throws InvalidArgument if `steps` is negative.
    BackupAndRestore(std::int64_t steps, const CheckpointManagerOptions& checkpoints, std::vector<NamedTensor> model,
                     std::vector<NamedTensor> state = {}, const BackupValues& values = {});

    /// Returns the number of the first step that remains; 0 if nothing was restored.
    [[nodiscard]] std::int64_t first_step() const noexcept { return first_step_; }
    /// Returns the checkpoint that was restored, if any.
    [[nodiscard]] const std::optional<CheckpointInfo>& restored() const noexcept { return restored_; }
    [[nodiscard]] CheckpointManager& manager() noexcept { return *manager_; }

    /// Says that a step is complete, for programs with a loop of their own. Saves a checkpoint if one is due.
    void complete(std::int64_t step);

    /// The position of the loop.
    class Iterator {
    public:
        Iterator(BackupAndRestore* owner, std::int64_t step) : owner_(owner), step_(step) {}
        [[nodiscard]] std::int64_t operator*() const noexcept { return step_; }
        Iterator& operator++() {
            owner_->complete(step_++);
            return *this;
        }
        [[nodiscard]] bool operator==(const Iterator& other) const noexcept { return step_ == other.step_; }

    private:
        BackupAndRestore* owner_;
        std::int64_t step_;
    };
    [[nodiscard]] Iterator begin() noexcept { return {this, first_step_}; }
    [[nodiscard]] Iterator end() noexcept { return {this, steps_}; }

private:
    [[nodiscard]] Snapshot snapshot(std::int64_t completed) const;

    std::int64_t steps_;
    std::vector<NamedTensor> model_;
    std::vector<NamedTensor> state_;
    BackupValues values_;
    std::unique_ptr<CheckpointManager> manager_;
    std::optional<CheckpointInfo> restored_;
    std::int64_t first_step_ = 0;
};

}  // namespace rueda::training
