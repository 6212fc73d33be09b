// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string_view>

#include "base/recorder/rank_recorder.hpp"
#include "base/status.hpp"

namespace rueda::base {

/// Writes the flight recorder of a rank: the record of what the rank did last. An object without a recorder records
/// nothing.
///
/// Threads: any thread may call announce(), announce_message(), note_name() and set_notes_parts(). The thread that
/// drives progress calls start(), end(), end_message() and note_batch(). A different thread may call start(), end(),
/// end_message() or note_batch() only to end a failed operation, because at that time only this thread knows the
/// operation's number.
class RecorderWriter {
public:
    /// Stands for the number of an operation that is not recorded.
    static constexpr std::uint64_t kNone = ~std::uint64_t{0};

    RecorderWriter() = default;
    /// `recorder` may be null.
    explicit RecorderWriter(RankRecorder* recorder) : recorder_(recorder) {}

    /// Writes the current time of the clocks. The rank calls this function once, before it records anything.
    void begin() const;
    /// Records a process set that the rank belongs to. Only the newest RankRecorder::kSets sets are kept. Threads: any
    /// thread, but only one at a time.
    void note_set(std::int32_t id, std::string_view ranks) const;
    /// Counts and records a step that the program begins. Threads: any thread, but only one at a time.
    void begin_step(std::int64_t step) const;
    /// Records a scope (a declared activity of the program) with its times in CLOCK_MONOTONIC. `name` comes from
    /// note_name(). If a scope began before begin() was called, the time of that call is recorded as the scope's
    /// beginning. Threads: any thread, but only one at a time.
    void note_scope(std::uint64_t name, std::int64_t began_ns, std::int64_t ended_ns) const;

    /// Whether note_part() must be called, that is, whether a timeline is on. The load is
    /// relaxed, so a change may take effect only after some parts of a batch in progress.
    [[nodiscard]] bool notes_parts() const {
        return recorder_ != nullptr && recorder_->notes_parts.load(std::memory_order_relaxed) != 0;
    }
    void set_notes_parts(bool wanted) const {
        if (recorder_ != nullptr) {
            recorder_->notes_parts.store(wanted ? 1 : 0, std::memory_order_relaxed);
        }
    }
    struct Part {
        PartKind kind = PartKind::work;
        std::int32_t awaited = -1;  ///< a rank of the job
        std::uint32_t steps = 0;
        std::uint64_t begin_ticks = 0;
        std::uint64_t end_ticks = 0;
        std::uint64_t waited_ticks = 0;
    };
    /// Records a part of the execution of a batch. Threads: the thread that drives progress.
    void note_part(std::int32_t set_id, const Part& part) const;
    /// Records that a GPU worked on a batch from `began_ns` to `ended_ns` (times of CLOCK_MONOTONIC). `kind` is the
    /// RecordKind of the batch's operations. Threads: as for note_part().
    void note_gpu_part(std::int32_t set_id, std::uint8_t kind, GpuPart gpu, std::int64_t began_ns,
                       std::int64_t ended_ns) const;

    /// Whether the names still contain the name to which note_name() gave this number.
    [[nodiscard]] bool knows(std::uint64_t name) const {
        return recorder_ == nullptr ||
               (name != 0 && name + RankRecorder::kNames > recorder_->names_written.load(std::memory_order_relaxed));
    }
    /// Writes a name and returns its number. Returns 0 if another thread is writing a name at the same time.
    [[nodiscard]] std::uint64_t note_name(std::int32_t set_id, std::string_view name) const;

    struct Announced {
        std::uint8_t kind = 0;  ///< a RecordKind
        std::uint8_t dtype = 0;
        std::uint8_t reduce_op = 0;
        bool is_blocking = false;
        std::uint64_t ordinal = 0;
        std::uint64_t name = 0;        ///< the name's number from note_name()
        std::uint64_t generation = 0;  ///< the operation's number among those of the name's slot; for an operation
                                       ///< without a name, the number of the call
        std::uint64_t bytes = 0;
    };
    /// Records that an operation was submitted. Returns the number of its record.
    std::uint64_t announce(const Announced& what) const { return announce(what, ticks_now()); }
    struct AnnouncedMessage {
        bool sends = false;
        std::uint8_t dtype = 0;
        bool is_blocking = false;
        std::int32_t set_id = 0;
        MessageEnd end;
        std::uint64_t bytes = 0;
    };
    /// Records that a send or a receive was called. Returns the number of its record.
    std::uint64_t announce_message(const AnnouncedMessage& what) const {
        if (recorder_ == nullptr) {
            return kNone;
        }
        recorder_->counters.messages.fetch_add(1, std::memory_order_relaxed);
        return announce({.kind = what.sends ? RecordKind::kSend : RecordKind::kReceive,
                         .dtype = what.dtype,
                         .is_blocking = what.is_blocking,
                         .ordinal = what.end.word(),
                         .name = static_cast<std::uint32_t>(what.set_id),
                         .bytes = what.bytes});
    }
    /// Records that a batch was added to the process set's log (its list of batches), and how many operations the batch
    /// has.
    void note_batch(std::uint64_t operations) const {
        if (recorder_ != nullptr) {
            add(recorder_->counters.batches, 1);
            add(recorder_->counters.batched, operations);
        }
    }
    /// Records that the execution of an operation began at `ticks`.
    void start(std::uint64_t number, std::uint64_t ticks) const { start_with(number, ticks, RecordState::kStarted); }
    /// Records that the execution of an operation began at `ticks`, and that the operation is in the batch at
    /// `position` of the process set's log.
    void start(std::uint64_t number, std::uint64_t ticks, std::uint64_t position) const {
        start_with(number, ticks, RecordState::kStarted | RecordState::kInBatch | position << RecordState::kBatchShift);
    }
    /// Records that a GPU has got all work of an operation.
    void launch(std::uint64_t number, std::uint64_t ticks) const {
        if (OperationRecord* const record = find(number); record != nullptr) {
            record->ended.store(ticks, std::memory_order_release);
            record->state.store(record->state.load(std::memory_order_relaxed) | RecordState::kLaunched,
                                std::memory_order_release);
        }
    }
    /// Records that a GPU has done the work of an operation, or that the operation failed after its launch. If the
    /// operation succeeded, its recorded end stays the time of the launch, and does not become the time when the GPU
    /// was done. A program launches an operation before the GPU has done the previous operation of the same name. With
    /// the GPU's times, these operations would overlap in a timeline. A timeline shows the GPU's work in a row of its
    /// own.
    void end_launched(std::uint64_t number, ErrorCode code) const {
        if (OperationRecord* const record = find(number); record != nullptr) {
            const bool keeps_time = code == ErrorCode::ok;
            end(*record, record->state.load(std::memory_order_relaxed),
                keeps_time ? record->ended.load(std::memory_order_relaxed) : ticks_now(), code);
        }
    }
    /// Records the end of an operation.
    void end(std::uint64_t number, std::uint64_t ticks, ErrorCode code) const {
        OperationRecord* const record = find(number);
        if (record == nullptr) {
            return;
        }
        end(*record, record->state.load(std::memory_order_relaxed), ticks, code);
    }
    /// Records the end of a send or a receive. `sender` is the rank whose message was received, or -1 if this rank
    /// sent. If the transfer succeeded and no start was recorded, the start is recorded as equal to the end.
    void end_message(std::uint64_t number, std::uint64_t ticks, ErrorCode code, std::int32_t sender) const {
        OperationRecord* const record = find(number);
        if (record == nullptr) {
            return;
        }
        if (sender >= 0) {
            MessageEnd known = MessageEnd::of(record->ordinal.load(std::memory_order_relaxed));
            known.peer = sender;
            record->ordinal.store(known.word(), std::memory_order_release);
        }
        std::uint64_t state = record->state.load(std::memory_order_relaxed);
        if (code == ErrorCode::ok && (state & RecordState::kStarted) == 0) {
            record->started.store(ticks, std::memory_order_release);
            state |= RecordState::kStarted;
        }
        end(*record, state, ticks, code);
    }
    /// Records the start and the successful end of an operation whose execution took almost no time.
    void start_and_end(std::uint64_t number, std::uint64_t started, std::uint64_t ended) const {
        OperationRecord* const record = find(number);
        if (record == nullptr) {
            return;
        }
        record->started.store(started, std::memory_order_release);
        end(*record, record->state.load(std::memory_order_relaxed) | RecordState::kStarted, ended, ErrorCode::ok);
    }
    /// Records that the program waits for a send or a receive. If the program started the send or receive just before
    /// this call, as a blocking call in Python does, the record gets the bit RecordState::kBlocking. Threads: any
    /// thread. If another thread changes the record's state at the same time, this bit may be lost, which does little
    /// harm: only reports use it.
    void note_awaited(std::uint64_t number) const {
        OperationRecord* const record = find(number);
        // relaxed: no other data depend on the bit
        if (record != nullptr && (record->state.load(std::memory_order_relaxed) & RecordState::kBlocking) == 0 &&
            ticks_now() - record->announced.load(std::memory_order_relaxed) < kJustBeforeTicks) {
            record->state.fetch_or(RecordState::kBlocking, std::memory_order_release);  // release: as all stores here
        }
    }
    /// Counts a stall report that this rank made. Threads: any thread may call this function.
    void note_stall_report() const {
        if (recorder_ != nullptr) {
            recorder_->counters.stall_reports.fetch_add(1, std::memory_order_relaxed);
        }
    }
    /// Records how much shared memory for tensors the program has allocated. Threads: any thread, but only one at a
    /// time.
    void note_resident_bytes(std::uint64_t bytes) const {
        if (recorder_ != nullptr) {
            recorder_->counters.resident_bytes.store(bytes, std::memory_order_relaxed);
        }
    }

private:
    static constexpr std::uint64_t kBytesMask = (std::uint64_t{1} << 48U) - 1;
    static constexpr std::uint64_t kJustBeforeTicks = std::uint64_t{1} << 22U;  // one to four milliseconds

    std::uint64_t announce(const Announced& what, std::uint64_t ticks) const {
        if (recorder_ == nullptr) {
            return kNone;
        }
        const std::uint64_t number = recorder_->counters.announced.fetch_add(1, std::memory_order_relaxed);
        OperationRecord& record = place_of(number);
        // RecorderReader::read() loads all words of the record with acquire.
        record.sequence.store(0, std::memory_order_relaxed);
        record.announced.store(ticks, std::memory_order_release);
        record.ordinal.store(what.ordinal, std::memory_order_release);
        record.name.store((what.name & 0xffff'ffffU) | what.generation << 32U, std::memory_order_release);
        record.size.store(
            (what.bytes & kBytesMask) | std::uint64_t{what.dtype} << 48U | std::uint64_t{what.reduce_op} << 56U,
            std::memory_order_release);
        record.state.store(
            RecordState::begin(what.kind, number) | (what.is_blocking ? RecordState::kBlocking : std::uint64_t{0}),
            std::memory_order_release);
        record.sequence.store(number + 1, std::memory_order_release);
        // The next record's memory was last used 4096 operations ago, so it has left the core's caches and is loaded in
        // advance.
        __builtin_prefetch(&place_of(number + 1), 1);
        return number;
    }

    struct Span {
        std::uint64_t begin = 0;
        std::uint64_t end = 0;
    };
    [[nodiscard]] Span ticks_at(std::int64_t began_ns, std::int64_t ended_ns) const;
    void note_ended(const Announced& what, std::uint64_t begin_ticks, std::uint64_t end_ticks) const;
    /// Writes the end of an operation to its record. `state` is the record's state word, to which this function adds
    /// the bits for the end.
    void end(OperationRecord& record, std::uint64_t state, std::uint64_t ticks, ErrorCode code) const {
        record.ended.store(ticks, std::memory_order_release);
        record.state.store(
            state | RecordState::kEnded | (static_cast<std::uint64_t>(code) & 0xffU) << RecordState::kStatusShift,
            std::memory_order_release);
        if (code != ErrorCode::ok) [[unlikely]] {
            if (RecordKind::is_collective(static_cast<std::uint8_t>(state))) {
                recorder_->counters.failed.fetch_add(1, std::memory_order_relaxed);
            }
            return;
        }
        const std::uint64_t started = record.started.load(std::memory_order_relaxed);
        KindCounters& counters = recorder_->counters.of_kind[state & (RankCounters::kKinds - 1)];
        add(counters.ended, 1);
        add(counters.bytes, record.size.load(std::memory_order_relaxed) & kBytesMask);
        add(counters.waited_ticks, started - record.announced.load(std::memory_order_relaxed));
        add(counters.executed_ticks, ticks - started);
    }

    [[nodiscard]] OperationRecord& place_of(std::uint64_t number) const {
        return recorder_->operations[number % RankRecorder::kOperations];
    }
    /// Returns null if the record of this operation was overwritten, which happens after 4096 newer operations.
    [[nodiscard]] OperationRecord* find(std::uint64_t number) const {
        if (recorder_ == nullptr || number == kNone) {
            return nullptr;
        }
        OperationRecord& record = place_of(number);
        return record.sequence.load(std::memory_order_relaxed) == number + 1 ? &record : nullptr;
    }
    void start_with(std::uint64_t number, std::uint64_t ticks, std::uint64_t bits) const {
        if (OperationRecord* const record = find(number)) {
            record->started.store(ticks, std::memory_order_release);
            record->state.store(record->state.load(std::memory_order_relaxed) | bits, std::memory_order_release);
        }
    }
    /// Only one thread writes this counter, so no atomic addition is needed.
    static void add(std::atomic<std::uint64_t>& sum, std::uint64_t more) {
        sum.store(sum.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
    }

    RankRecorder* recorder_ = nullptr;
};

}  // namespace rueda::base
