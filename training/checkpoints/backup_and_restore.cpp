// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/backup_and_restore.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rueda::training {

BackupAndRestore::BackupAndRestore(std::int64_t steps, const CheckpointManagerOptions& checkpoints,
                                   std::vector<NamedTensor> model, std::vector<NamedTensor> state,
                                   const BackupValues& values)
    : steps_(steps), model_(std::move(model)), state_(std::move(state)), values_(values) {
    if (steps < 0) {
        throw InvalidArgument(fmt::format("backup and restore: steps is {}; it must be 0 or more", steps));
    }
    manager_ = std::make_unique<CheckpointManager>(checkpoints);
    manager_->claim();
    restored_ = manager_->restore(model_, state_);
    if (!restored_) {
        broadcast_parameters(model_);
        broadcast_parameters(state_);
        return;
    }
    // If the program was started again with fewer steps, the checkpoint may be from a step that this run does not have.
    first_step_ = std::min(restored_->step, steps_);
    if (values_.restored) {
        values_.restored(restored_->values);
    }
}

Snapshot BackupAndRestore::snapshot(std::int64_t completed) const {
    return {completed, model_, state_, values_.save ? values_.save() : Metadata(), std::nullopt};
}

void BackupAndRestore::complete(std::int64_t step) {
    const std::int64_t completed = step + 1;
    if (rank() != 0) {
        return;  // only rank 0 writes checkpoints, and rank 0's clock decides when
    }
    if (completed == steps_) {
        const Busy busy("writing the last checkpoint");  // the other ranks may already wait for this rank
        // If an earlier checkpoint were still being written, save() would skip the last checkpoint. So this wait comes
        // first.
        manager_->wait();
        manager_->save(snapshot(completed));
        manager_->wait();
    } else if (manager_->is_due(completed)) {
        manager_->save(snapshot(completed));
    }
}

}  // namespace rueda::training
