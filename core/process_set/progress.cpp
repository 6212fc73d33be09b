// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// One turn of the engine for one process set.
#include <exception>
#include <new>

#include "core/negotiation/batch_end.hpp"
#include "core/process_set/batch_runner.hpp"

namespace rueda::core {

using collectives::StepResult;

namespace {

collectives::DevicePath path_of(base::GpuPath path) {
    switch (path) {
        case base::GpuPath::nccl:
            return collectives::DevicePath::nccl;
        case base::GpuPath::host:
            return collectives::DevicePath::host;
        case base::GpuPath::ipc:
            return collectives::DevicePath::ipc;
        case base::GpuPath::automatic:
            break;
    }
    return collectives::DevicePath::automatic;
}

/// Whether take_decided_errors() handles entries of this kind. Most of them end an operation with an error that is the
/// same on all ranks. An entry that retires a slot ends no operation, but entries with errors may follow it.
bool is_decided_error(EntryKind kind) {
    return kind == EntryKind::mismatch || kind == EntryKind::disagreed || kind == EntryKind::lacks_joined ||
           kind == EntryKind::failed || kind == EntryKind::retire;
}

}  // namespace

BatchRunner::BatchRunner(const base::Config& config, const SetView& view, const Parts& parts)
    : view_(view),
      memory_(view.memory),
      announcer_(parts.announcer),
      direct_(parts.direct),
      groups_(parts.groups),
      inspection_(parts.inspection),
      verification_(parts.verification),
      join_(parts.join),
      answers_(parts.answers),
      hosts_(parts.hosts),
      communicator_(parts.hosts.communicator()),
      reduction_(parts.reduction),
      recording_(parts.recording),
      ends_(parts.ends),
      waking_(parts.waking),
      cursor_(parts.cursor),
      table_(parts.announcer.table()),
      log_(parts.announcer.log()),
      fusion_threshold_bytes_(config.fusion_threshold_bytes),
      open_batch_(static_cast<std::int64_t>(config.hold_seconds * 1e9)),
      checks_(parts.inspection.is_on()),
      parts_(view),
      batch_(view, parts.announced, parts.outputs),
      devices_(view, parts.ends, path_of(config.gpu_path)) {}

/// An exception in step() ends the job, because the other ranks depend on this rank's part in the called operations.
Turn BatchRunner::step(bool urgent, bool asks_others) noexcept {
    try {
        return take_turn(urgent, asks_others);
    } catch (const std::bad_alloc&) {
        ends_.raise_no_memory();
    } catch (const std::exception& error) {
        ends_.raise(ErrorCode::internal, error.what());
    } catch (...) {
        ends_.raise(ErrorCode::internal, "an exception of an unknown type came in the middle of an operation");
    }
    return Turn::idle;
}

Turn BatchRunner::take_turn(bool urgent, bool asks_others) {
    const bool ended = announcer_.may_have_deferred() && announcer_.retry_deferred();
    const bool joined = join_.is_on() && join_.turn();
    const bool crossed = hosts_.turn(asks_others, has_batch());
    const bool moved = (direct_.any() && announcer_.turn_direct() != DirectState::waiting) || crossed || joined;
    const bool worked = devices_.has_launched() && devices_.turn();
    // The log is read even after a direct operation made progress. Otherwise a rank that starts direct operations in a
    // loop would never read the log.
    const Turn turn = take_log_turn(urgent, asks_others);
    if (!devices_.failed().is_ok() && !ends_.has_aborted()) [[unlikely]] {
        ends_.raise(devices_.failed());
    }
    if (moved || ended || worked) {
        return Turn::advanced;
    }
    // No thread is woken when a device ends its work, so this rank must poll.
    return devices_.has_launched() && (turn == Turn::idle || turn == Turn::waiting) ? Turn::polling : turn;
}

void BatchRunner::take_decided_errors() noexcept {
    try {
        while (!has_batch() && log_.is_published(cursor_.position())) {
            const Called entry = log_.read(cursor_.position());
            if (!is_decided_error(entry.kind) || !answers_.take(entry)) {
                return;
            }
        }
    } catch (const std::exception&) {
        // There is no memory for the errors from the log. fail_all() ends the operations with the reason of the abort
        // instead.
        return;
    }
}

Turn BatchRunner::turn_task() {
    const StepResult result = parts_.is_on() ? parts_.step(*task_, task_end_) : task_->step();
    switch (result) {
        case StepResult::advanced:
            return Turn::advanced;
        case StepResult::done:
            if (task_is_splits_) {
                take_splits();
            } else {
                finish_batch();
            }
            return Turn::advanced;
        case StepResult::waiting:
        case StepResult::polling:
            break;
    }
    hosts_.look_at_communicator();
    return result == StepResult::polling ? Turn::polling : Turn::waiting;
}

Turn BatchRunner::take_log_turn(bool urgent, bool asks_others) {
    if (has_batch()) {
        return turn_task();
    }
    const std::uint64_t position = cursor_.position();
    if (answers_.is_closed() || !log_.is_published(position)) {
        return Turn::idle;
    }
    const Called entry = log_.read(position);
    if (is_call(entry.kind)) {
        return start_batch(position, urgent, asks_others);
    }
    return answers_.take(entry) ? Turn::advanced : Turn::idle;
}

}  // namespace rueda::core
