// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>

#include "base/recorder/recorder_writer.hpp"
#include "base/status.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/process_set/common/set_view.hpp"

namespace rueda::core {

/// Records the operations of a process set in this rank's flight recorder, a ring of its last operations
/// (docs/design/0016-recorder.md).
///
/// Threads: number() runs under the enqueue lock. submitted() runs under it too, or before any other thread can execute
/// the operation. The other functions run in the thread that drives progress, or in the thread that ends a failed
/// operation.
class Recording {
public:
    explicit Recording(const SetView& view);

    /// Returns the number of the next operation in this set, counted from 1. Ranks that call their operations in the
    /// same order give these operations the same numbers.
    [[nodiscard]] std::uint64_t number() { return ++numbered_; }
    /// Records that the operation of `entry` is pending. `number` is the result of number(). `generation` counts the
    /// announcements in the operation's slot.
    void submitted(TensorEntry& entry, std::uint64_t number, std::uint64_t generation, bool is_blocking) const;
    /// Records that the operations of a batch start. `position` is the batch's first log position. Returns the time
    /// stamp.
    std::uint64_t started_batch(std::span<TensorEntry* const> entries, std::uint64_t position) const;
    /// Records that a directly announced operation started at `ticks`.
    void started_directly(const TensorEntry& entry, std::uint64_t ticks) const { writer_.start(entry.recorded, ticks); }
    /// Returns the time stamp for the end of an operation that started at `started` and has just ended. For a short
    /// operation, reading the clock would cost too much, so the function returns `started`.
    [[nodiscard]] static std::uint64_t end_of(const TensorEntry& entry, std::uint64_t started) {
        return entry.request.bytes() <= kShortBytes ? started : base::ticks_now();
    }
    void ended(const TensorEntry& entry, ErrorCode code, std::uint64_t ticks) const {
        writer_.end(entry.recorded, ticks, code);
    }
    /// Records the end of a launched operation, whose name may be in use again. `record` is the operation's number in
    /// the recorder.
    void ended_launched(std::uint64_t record, ErrorCode code) const { writer_.end_launched(record, code); }
    [[nodiscard]] bool has_timeline() const { return writer_.notes_parts(); }
    /// See OperationEnds::note_gpu().
    void note_gpu(collectives::Operation operation, std::int32_t device, std::size_t operations, std::int64_t begin_ns,
                  std::int64_t end_ns) const {
        writer_.note_gpu_part(set_id_, static_cast<std::uint8_t>(operation),
                              {.device = device, .operations = static_cast<std::int32_t>(operations)}, begin_ns,
                              end_ns);
    }
    /// Records that a device has got all work of the operation. The operation ends when the device has done the work.
    void launched(const TensorEntry& entry, std::uint64_t ticks) const { writer_.launch(entry.recorded, ticks); }
    /// Records that the operation of `entry` was executed successfully, from `started` to `ended`.
    void executed(const TensorEntry& entry, std::uint64_t started, std::uint64_t ended) const {
        writer_.start_and_end(entry.recorded, started, ended);
    }

private:
    /// An operation on at most this many bytes is short: to combine so few bytes of two ranks takes less than a
    /// microsecond.
    static constexpr std::uint64_t kShortBytes = 4096;

    const SetView& view_;
    base::RecorderWriter writer_;
    std::int32_t set_id_;
    std::uint64_t numbered_ = 0;  // the number of operations of this set so far
};

}  // namespace rueda::core
