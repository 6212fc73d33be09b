// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/recorder/ticks.hpp"
#include "base/shared_memory/control_block.hpp"

namespace rueda::base {

/// The kind of a record in the flight recorder (the record of what a rank did last). A record describes an operation, a
/// training step, or a scope (a declared activity of the program). Numbers below `kStep` are those of
/// collectives::Operation.
struct RecordKind {
    static constexpr std::uint8_t kAllreduce = 0;
    static constexpr std::uint8_t kBroadcast = 1;
    static constexpr std::uint8_t kAllgather = 2;
    static constexpr std::uint8_t kBarrier = 3;
    static constexpr std::uint8_t kJoin = 4;
    static constexpr std::uint8_t kAlltoall = 5;
    static constexpr std::uint8_t kReducescatter = 6;
    static constexpr std::uint8_t kGroup = 7;
    static constexpr std::uint8_t kGather = 8;
    static constexpr std::uint8_t kScatter = 9;
    static constexpr std::uint8_t kReduce = 10;
    static constexpr std::uint8_t kStep = 64;   ///< the program began a training step; `ordinal` is the step's number
    static constexpr std::uint8_t kScope = 65;  ///< an activity that the program declared, from `announced` to `ended`;
                                                ///< `name` is its name
};

/// The last word of a record. It says how far the operation has come, and which fields of the record are valid.
///
/// Its bits:
///     0–7    the RecordKind
///     8–15   the flags below
///     16–23  the status code of the ended operation
///     24–31  the lap: how often the ring of records was filled. A late store of an older operation in the same
///            place is recognised by its other lap.
///     32–63  the low bits of the batch's position in the process set's log (the list of batches)
struct RecordState {
    static constexpr std::uint64_t kStarted = 1U << 8U;    ///< the operation is being executed; `started` is valid
    static constexpr std::uint64_t kEnded = 1U << 9U;      ///< `ended` and the status are valid
    static constexpr std::uint64_t kInBatch = 1U << 10U;   ///< the batch's position is valid: the operation is in the
                                                           ///< log
    static constexpr std::uint64_t kBlocking = 1U << 11U;  ///< a caller was waiting for the operation when it was
                                                           ///< submitted
    static constexpr unsigned kStatusShift = 16;
    static constexpr unsigned kLapShift = 24;
    static constexpr unsigned kBatchShift = 32;

    [[nodiscard]] static constexpr std::uint64_t begin(std::uint8_t kind, std::uint64_t number) {
        return kind | ((number / kCapacity & 0xffU) << kLapShift);
    }
    /// Whether `state` was written for the operation number `number`, and not for an older one in the same place.
    [[nodiscard]] static constexpr bool belongs(std::uint64_t state, std::uint64_t number) {
        return (state >> kLapShift & 0xffU) == (number / kCapacity & 0xffU);
    }
    /// The number of operations in a rank's ring. With 64 bytes each, they take 256 KiB.
    static constexpr std::uint64_t kCapacity = 4096;
};

/// One operation, in one cache line that only its own rank writes. The rank first sets `sequence` to 0, writes the
/// words after it, and then sets `sequence` to the operation's number plus 1. Later it writes `started`, `ended` and
/// `state`, in this order, and leaves `sequence` unchanged. This is safe because `state` says which of these words are
/// valid.
///
/// All stores are releases and all loads are acquires. If a reader has seen a word of a newer operation, it therefore
/// also sees that `sequence` has changed. Fences are not used, because ThreadSanitizer does not know them. On x86-64
/// all these accesses are plain moves.
struct alignas(kCacheLine) OperationRecord {
    std::atomic<std::uint64_t> sequence;   ///< the operation's number plus 1; 0: the record is empty or being written
    std::atomic<std::uint64_t> announced;  ///< when this rank submitted the operation, in ticks
                                           ///< (base/recorder/ticks.hpp)
    std::atomic<std::uint64_t> started;    ///< when execution began, in ticks; this rank knew by then that all ranks
                                           ///< had announced the operation
    std::atomic<std::uint64_t> ended;      ///< when the operation ended, in ticks
    /// How many operations this rank has submitted in the process set, including this one. For a step: the step's
    /// number.
    std::atomic<std::uint64_t> ordinal;
    /// Lower half: the number of the name in `RankRecorder::names`. Upper half: low bits of the generation of the
    /// name's slot (the number that stands for the name), or 0 if the slot was not known. For an operation without a
    /// name, the upper half is the number of the call.
    std::atomic<std::uint64_t> name;
    std::atomic<std::uint64_t> size;   ///< bits 0–47: bytes; 48–55: DType; 56–63: ReduceOp
    std::atomic<std::uint64_t> state;  ///< see RecordState
};
static_assert(sizeof(OperationRecord) == kCacheLine && std::is_trivially_destructible_v<OperationRecord>);
static_assert(offsetof(OperationRecord, state) == 56);

/// The name of a tensor in a process set. Names lie in a ring, so a newer name may have replaced the name of an older
/// record. In this case `number` differs from the number in the record.
struct alignas(kCacheLine) NameRecord {
    std::atomic<std::uint64_t> number;  ///< the name's number, counted from 1; 0: empty or being written
    std::atomic<std::int32_t> set_id;
    std::atomic<std::uint32_t> hash;  ///< hash of the complete name, which may be longer than `text`
    SharedText<104> text;             ///< empty for operations without a name
};
static_assert(sizeof(NameRecord) == 2 * kCacheLine);

/// A process set that the rank belongs to, or belonged to.
struct alignas(kCacheLine) SetRecord {
    std::atomic<std::uint32_t> in_use;  ///< 1: the other fields are valid
    std::atomic<std::int32_t> id;
    SharedText<104> ranks;  ///< the members' ranks in the job, as format_ranks() writes them; shortened if there are
                            ///< many
};
static_assert(sizeof(SetRecord) == 2 * kCacheLine);

/// Sums over the operations of one kind that ended with success.
struct alignas(32) KindCounters {
    std::atomic<std::uint64_t> ended;           ///< number of operations
    std::atomic<std::uint64_t> bytes;           ///< bytes of these operations on this rank
    std::atomic<std::uint64_t> waited_ticks;    ///< sum of the times from `announced` to `started`
    std::atomic<std::uint64_t> executed_ticks;  ///< sum of the times from `started` to `ended`
};
static_assert(sizeof(KindCounters) == kCacheLine / 2);

/// Counters over the life of the rank, for `rueda top` and for metrics. All stores are relaxed, because a reader uses
/// each number alone and compares it with the same number seconds later.
struct RankCounters {
    /// The size of an array that is indexed by the RecordKind of an operation. It is a power of two, so that a mask
    /// keeps a wrong kind within the array.
    static constexpr std::size_t kKinds = 16;

    /// How many operations, steps and scopes (declared activities) were recorded. This is also the number of the next
    /// record.
    alignas(kCacheLine) std::atomic<std::uint64_t> announced;

    // Only the thread that drives progress (that steps the rank's tasks) writes the following counters.
    alignas(kCacheLine) KindCounters of_kind[kKinds];        ///< indexed by RecordKind
    alignas(kCacheLine) std::atomic<std::uint64_t> batches;  ///< number of batches in the log
    std::atomic<std::uint64_t> batched;                      ///< number of operations in these `batches`

    // Any thread may write the following counters, but this happens rarely.
    alignas(kCacheLine) std::atomic<std::uint64_t> failed;  ///< number of operations that ended with an error
    std::atomic<std::uint64_t> steps;                       ///< number of steps that the program has begun
    std::atomic<std::uint64_t> step_began_ticks;            ///< when the last step began; 0: the program has begun no
                                                            ///< step
    std::atomic<std::uint64_t> step_ticks;                  ///< how long the step before the last one took; 0: unknown
    std::atomic<std::uint64_t> stall_reports;               ///< number of stall reports that this rank has made
    std::atomic<std::uint64_t> resident_bytes;              ///< how many bytes of shared memory for tensors the program
                                                            ///< has allocated
    std::atomic<std::uint64_t> scopes;                      ///< number of recorded scopes (activities that the program
                                                            ///< declared)
};
static_assert(sizeof(RankCounters) == 11 * kCacheLine && RecordKind::kReduce < RankCounters::kKinds);

/// The flight recorder of one rank: what the rank did last. It lies in the job's shared memory, so it stays readable
/// after the rank was killed. It begins as zeros, and only pages that are written use memory.
struct alignas(4096) RankRecorder {
    static constexpr std::uint64_t kOperations = RecordState::kCapacity;
    static constexpr std::uint64_t kNames = 2048;
    static constexpr std::uint64_t kSets = 26;  ///< this is how many fit into the first page

    // The rank writes the clocks below once, before it sets `ready`.
    std::atomic<std::uint32_t> ready;  ///< 1: the rank has begun to record
    /// 1: a thread of the rank is writing a name. If another thread wants to write a name at this time, it does not
    /// wait. The name is written the next time that it is used.
    std::atomic<std::uint32_t> names_taken;
    std::atomic<std::uint64_t> begin_ticks;  ///< a moment in both clocks (ticks and nanoseconds), as TickClock needs it
    std::atomic<std::int64_t> begin_ns;      ///< CLOCK_MONOTONIC
    std::atomic<std::int64_t> realtime_ns;   ///< the same moment in CLOCK_REALTIME

    std::atomic<std::uint64_t> names_written;  ///< the number of the newest name
    std::atomic<std::uint64_t> sets_written;   ///< number of recorded process sets; only the newest are kept
    RankCounters counters;
    SetRecord sets[kSets];

    alignas(4096) OperationRecord operations[kOperations];
    alignas(4096) NameRecord names[kNames];
};
static_assert(offsetof(RankRecorder, counters) == kCacheLine);
static_assert(offsetof(RankRecorder, operations) == 4096);
static_assert(offsetof(RankRecorder, names) == 4096 + RankRecorder::kOperations * sizeof(OperationRecord));
static_assert(std::is_trivially_destructible_v<RankRecorder>);

}  // namespace rueda::base
