// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/recorder/rank_recorder.hpp"

namespace rueda::base {

/// A record of the flight recorder: an operation, a send or a receive, a step or a scope of the program, or a part of
/// an execution. Times are nanoseconds of CLOCK_MONOTONIC.
struct RecordedOperation {
    std::uint64_t number = 0;  ///< the record's number among all records of this rank
    std::uint8_t kind = 0;     ///< RecordKind
    std::uint8_t dtype = 0;    ///< a DType; in the record of a part of an execution: a PartKind
    std::uint8_t reduce_op = 0;
    std::uint8_t status = 0;  ///< an ErrorCode; valid if the operation has ended
    bool is_blocking = false;
    std::int32_t set_id = 0;
    std::uint64_t ordinal = 0;  ///< 1 for this rank's first operation in the process set, 2 for its second, and so on;
                                ///< for a step: the step's number
    std::string name;           ///< empty if the operation has no name, or if its name was overwritten
    std::uint32_t name_hash = 0;
    bool has_name_record = false;  ///< whether `set_id` and `name` are known
    /// For an operation with a name: the low bits of the generation, which is the operation's number among the
    /// operations of the name's slot; 0 if the slot was not known. For an operation without a name: the low bits of the
    /// number of the call.
    std::uint32_t generation = 0;
    /// For a send or a receive: the other rank, and the tag. For a part of an execution: the rank that was awaited,
    /// and, in place of the tag, the number of the task's steps in this part. These records have no name, no ordinal
    /// and no generation.
    MessageEnd message = {};
    std::uint64_t bytes = 0;             ///< the size in bytes; in the record of a part of an execution: the
                                         ///< nanoseconds that the rank waited in this part
    std::optional<std::uint32_t> batch;  ///< the low bits of the batch's position in the process set's log
    std::int64_t announced_ns = 0;
    std::optional<std::int64_t> started_ns;
    std::optional<std::int64_t> ended_ns;
    bool is_launched = false;  ///< whether the work of the operation was given to a GPU
    /// The time when the rank gave the operation's work to a GPU. Has a value only while the GPU has not finished the
    /// work.
    std::optional<std::int64_t> launched_ns = {};

    [[nodiscard]] bool operator==(const RecordedOperation&) const = default;
};

/// A process set to which the rank belongs, or belonged earlier.
struct RecordedSet {
    std::int32_t id = 0;
    std::string ranks;  ///< the members' ranks in the job, as in SetRecord
    [[nodiscard]] bool operator==(const RecordedSet&) const = default;
};

/// The counters of a rank, with times in nanoseconds. Among these counters, only `announced` and `messages` include
/// sends and receives.
struct RecordedCounters {
    std::uint64_t announced = 0;
    std::uint64_t ended = 0;
    std::uint64_t failed = 0;
    std::uint64_t bytes = 0;
    std::uint64_t batches = 0;
    std::int64_t waited_ns = 0;
    std::int64_t executed_ns = 0;
    std::uint64_t steps = 0;
    std::uint64_t scopes = 0;
    std::uint64_t messages = 0;
    std::uint64_t parts = 0;
    std::optional<std::int64_t> step_began_ns;
    std::optional<std::int64_t> step_ns;  ///< time between the beginnings of the last two steps
    [[nodiscard]] bool operator==(const RecordedCounters&) const = default;
};

/// Sums over the operations of one kind that ended with success.
struct RecordedKind {
    std::uint64_t ended = 0;
    std::uint64_t bytes = 0;
    std::int64_t waited_ns = 0;
    std::int64_t executed_ns = 0;
};

/// Counters that only metrics use. The files of the flight recorder do not contain them.
struct RecordedExtras {
    std::array<RecordedKind, RecordKind::kReduce + 1> kinds;  ///< indexed by RecordKind
    std::uint64_t batched = 0;                                ///< number of operations in batches
    std::uint64_t stall_reports = 0;
    std::uint64_t resident_bytes = 0;
};

/// How many operations of process sets are in the ring and have not ended.
struct PendingOperations {
    std::uint64_t count = 0;
    std::optional<std::int64_t> oldest_announced_ns;
};

/// Reads the flight recorder of a rank (the record of what it did last). The rank may continue to record, or may be
/// dead. The reader trusts nothing in this memory: damaged memory gives wrong numbers, but no crash.
///
/// Threads: any thread may call these functions. The reader must run on the rank's machine, because the recorded times
/// are values of that machine's time-stamp counter.
class RecorderReader {
public:
    /// The memory of `recorder` may be mapped read-only.
    explicit RecorderReader(const RankRecorder& recorder) : RecorderReader(recorder, recorder, ClockPair::now()) {}
    /// Reads `recorder`, but converts ticks to times with the start time of another rank's recorder (`clock`, of the
    /// same host) and with the time `now`. Readers with the same `clock` and `now` convert equal ticks to equal times.
    /// Therefore the times of several ranks can be compared exactly.
    RecorderReader(const RankRecorder& recorder, const RankRecorder& clock, ClockPair now);

    /// Whether the rank has begun to record. If not, there is nothing to read.
    [[nodiscard]] bool is_ready() const { return recorder_.ready.load(std::memory_order_acquire) == 1; }
    /// ns_of() converts a time stamp to nanoseconds of CLOCK_MONOTONIC, and span_ns() converts a duration.
    [[nodiscard]] std::int64_t ns_of(std::uint64_t ticks) const;
    [[nodiscard]] std::int64_t span_ns(std::uint64_t ticks) const;
    /// Returns CLOCK_REALTIME − CLOCK_MONOTONIC at the time when the rank began to record.
    [[nodiscard]] std::int64_t realtime_offset_ns() const;

    /// Returns the newest `most` operations, or fewer, in the order of their numbers. Records that are just being
    /// written are left out.
    [[nodiscard]] std::vector<RecordedOperation> operations(std::size_t most = RankRecorder::kOperations) const;
    /// The number of the next operation that the rank will announce.
    [[nodiscard]] std::uint64_t next_number() const {
        return recorder_.counters.announced.load(std::memory_order_acquire);
    }
    /// Returns the operation with this number. Returns nothing if its record is being written or was overwritten.
    [[nodiscard]] std::optional<RecordedOperation> operation(std::uint64_t number) const { return read(number); }
    [[nodiscard]] std::vector<RecordedSet> sets() const;
    [[nodiscard]] RecordedCounters counters() const;
    [[nodiscard]] RecordedExtras extras() const;
    /// Counts the operations that have not ended. It reads each record once, and allocates no memory.
    [[nodiscard]] PendingOperations pending() const;

private:
    struct Name {
        std::int32_t set_id = 0;
        std::uint32_t hash = 0;
        std::string text;
    };
    [[nodiscard]] std::optional<RecordedOperation> read(std::uint64_t number) const;
    [[nodiscard]] std::optional<Name> read_name(std::uint32_t low_number) const;

    const RankRecorder& recorder_;
    ClockPair now_;
    TickClock clock_;
};

/// Returns a name such as "allreduce" or "step"; "unknown" for an unknown kind.
[[nodiscard]] std::string_view name_of_record_kind(std::uint8_t kind);

}  // namespace rueda::base
