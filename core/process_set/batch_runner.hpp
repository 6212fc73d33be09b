// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/settings/config.hpp"
#include "base/status.hpp"
#include "collectives/communicator.hpp"
#include "core/negotiation/log.hpp"
#include "core/negotiation/open_batch.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/process_set/announcing/announcer.hpp"
#include "core/process_set/announcing/direct_announcements.hpp"
#include "core/process_set/announcing/input_inspection.hpp"
#include "core/process_set/batches/announced.hpp"
#include "core/process_set/batches/called_batch.hpp"
#include "core/process_set/batches/device_batches.hpp"
#include "core/process_set/batches/payload_reduction.hpp"
#include "core/process_set/batches/row_outputs.hpp"
#include "core/process_set/common/execution_parts.hpp"
#include "core/process_set/common/log_cursor.hpp"
#include "core/process_set/common/operation_ends.hpp"
#include "core/process_set/common/recording.hpp"
#include "core/process_set/common/set_view.hpp"
#include "core/process_set/common/waking.hpp"
#include "core/process_set/coordination/groups.hpp"
#include "core/process_set/coordination/join.hpp"
#include "core/process_set/coordination/log_answers.hpp"
#include "core/process_set/coordination/verification.hpp"
#include "core/process_set/hosts.hpp"

namespace rueda::core {

/// The result of one turn of the engine on a process set.
enum class Turn {
    idle,      ///< the log has no new entries
    advanced,  ///< an operation made progress
    waiting,   ///< a batch is in progress and waits for another rank of this host
    polling,   ///< a batch is in progress and waits for another host; messages of other hosts wake no thread
    holding,   ///< a batch is open: it waits for more operations
};

/// Reads the log of a process set and runs the operations that the log calls. If all inputs were sent with the
/// announcements, this rank computes its result at once. Otherwise a task of the communicator runs the batch.
///
/// Threads: the thread that drives progress. Any thread may call has_unread().
class BatchRunner {
public:
    using Atomics = base::StdAtomics;

    /// The parts of the set that the runner uses. They must outlive the runner.
    struct Parts {
        Announcer& announcer;
        DirectAnnouncements& direct;
        Groups& groups;
        const InputInspection& inspection;
        Verification& verification;
        Join& join;
        LogAnswers& answers;
        Hosts& hosts;
        const PayloadReduction& reduction;
        const Announced& announced;
        const RowOutputs& outputs;
        const Recording& recording;
        OperationEnds& ends;
        const Waking& waking;
        LogCursor& cursor;
    };
    BatchRunner(const base::Config& config, const SetView& view, const Parts& parts);

    /// See ProcessSet::step().
    Turn step(bool urgent, bool asks_others) noexcept;
    /// Whether a batch is in progress.
    [[nodiscard]] bool has_batch() const { return task_ != nullptr; }
    /// Whether a device still works on operations of this set.
    [[nodiscard]] bool has_launched() const { return devices_.has_launched(); }
    /// See DeviceBatches::oldest().
    [[nodiscard]] std::optional<LaunchedBatch> oldest_launched() const { return devices_.oldest(); }
    /// Returns the chunks into which the task in progress divides its data (Task::chunks()). Threads: the thread that
    /// drives progress.
    [[nodiscard]] std::optional<collectives::BatchChunks> chunks() const {
        return has_batch() && !task_is_splits_ ? task_->chunks() : std::nullopt;
    }
    /// Whether the log has entries that this rank has not read.
    [[nodiscard]] bool has_unread() const { return log_.is_published(cursor_.position()); }
    /// The time (in ns) until which an open batch may wait for more operations.
    [[nodiscard]] std::int64_t hold_until_ns() const { return open_batch_.held_until_ns(); }
    /// Call this after an abort. If the next entries of the log contain errors of operations, this function ends these
    /// operations with their errors. Other ranks may already have got the same errors, and one of them may have ended
    /// the job.
    void take_decided_errors() noexcept;
    /// Drops the batch in progress. Also ends, with `reason`, the operations that a device still works on. Call this
    /// when the job has ended.
    void abandon(const Status& reason) noexcept {
        task_ = nullptr;
        devices_.abandon(reason);
    }
    void disconnect_devices() { devices_.release(); }
    /// Frees the memory that batches need. Call this when no further batch will run.
    void release_memory() {
        batch_.release();
        devices_.release();
    }

private:
    using Called = Log<Atomics>::Entry;

    // Defined in progress.cpp:
    Turn take_turn(bool urgent, bool asks_others);
    Turn turn_task();
    Turn take_log_turn(bool urgent, bool asks_others);

    // Defined in executing.cpp:
    Turn start_batch(std::uint64_t position, bool urgent, bool asks_others);
    [[nodiscard]] bool stays_open(std::uint64_t position, std::uint64_t end, bool urgent, bool asks_others);
    bool run_inline(std::uint64_t position);
    bool run_carried(std::uint64_t position);
    Turn run_batch(std::uint64_t begin, std::uint64_t end);
    void prefetch_entries(std::uint64_t begin, std::uint64_t end) const;
    void prefetch_announcements(std::uint64_t begin, std::uint64_t end) const;
    [[nodiscard]] Status add_to_batch(std::uint64_t position);
    [[nodiscard]] TensorEntry* called_entry(const Called& called);
    [[nodiscard]] Status settle_numbers(TensorEntry& entry, EntryKind kind);
    [[nodiscard]] collectives::Task& start_data_task(bool after_splits = false);
    void start_task();
    void take_splits();
    void finish_batch();
    void finish_on_device();

    SetView view_;
    const NegotiationMemory<Atomics>& memory_;
    Announcer& announcer_;
    DirectAnnouncements& direct_;
    Groups& groups_;
    const InputInspection& inspection_;
    Verification& verification_;
    Join& join_;
    LogAnswers& answers_;
    Hosts& hosts_;
    collectives::Communicator& communicator_;
    const PayloadReduction& reduction_;
    const Recording& recording_;
    OperationEnds& ends_;
    const Waking& waking_;
    LogCursor& cursor_;
    const TensorTable& table_;  // used only to look up slots whose log entries this rank has read
    const Log<Atomics>& log_;
    std::uint64_t fusion_threshold_bytes_;
    OpenBatch open_batch_;
    bool checks_;  // whether inputs or results are checked (InputInspection::is_on())

    ExecutionParts parts_;
    CalledBatch batch_;
    DeviceBatches devices_;
    collectives::Task* task_ = nullptr;
    // whether the current task only exchanges splits; in that case, another task for the data follows
    bool task_is_splits_ = false;
    std::uint64_t task_end_ = 0;      // the log position after the batch
    std::uint32_t carried_read_ = 0;  // how many results this rank has read from attachments
};

}  // namespace rueda::core
