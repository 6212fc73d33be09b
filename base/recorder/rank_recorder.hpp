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

/// The kinds of records in the flight recorder. A record describes an operation of a process set, a send or a receive,
/// a step, a scope, or a part of an execution. The kinds below `kStep` have the same numbers as the enumerators of
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
    static constexpr std::uint8_t kStep = 64;   ///< the program began a training step; `ordinal` is its number
    static constexpr std::uint8_t kScope = 65;  ///< a scope of the program, from `announced` to `ended`; has a name
    /// A part of the execution of a batch (see PartKind), from `announced` to `ended`. Parts are recorded only while a
    /// timeline is on.
    static constexpr std::uint8_t kPart = 66;
    // The low bits of a kind are an index into RankCounters::of_kind. `kSend` has the index 11 and `kReceive` the index
    // 12, which no other kind of operation has.
    static constexpr std::uint8_t kSend = 64 + 11;
    static constexpr std::uint8_t kReceive = 64 + 12;

    /// Whether all ranks of a process set take part in an operation of this kind.
    [[nodiscard]] static constexpr bool is_collective(std::uint8_t kind) { return kind < kStep; }
    [[nodiscard]] static constexpr bool is_message(std::uint8_t kind) { return kind == kSend || kind == kReceive; }
};

/// The last word of a record. It says how far the operation has come, and which fields of the record are valid.
///
/// The bits of this word:
///     0–7    the RecordKind
///     8–15   the flags below
///     16–23  the status code of the ended operation
///     24–31  the lap: how often the ring of records was filled. The lap shows whether this word belongs to the
///            record's operation, or was stored late for an older operation, whose record was in the same place.
///     32–63  the low bits of the batch's position in the process set's log (the list of batches)
struct RecordState {
    static constexpr std::uint64_t kStarted = 1U << 8U;    ///< the operation is being executed; `started` is valid
    static constexpr std::uint64_t kEnded = 1U << 9U;      ///< `ended` and the status are valid
    static constexpr std::uint64_t kInBatch = 1U << 10U;   ///< the batch's position is valid: the operation is in the
                                                           ///< log
    static constexpr std::uint64_t kBlocking = 1U << 11U;  ///< the call that submitted the operation also waited
                                                           ///< for its end
    /// all work of the operation was given to a GPU; the operation ends when the GPU has done the work
    static constexpr std::uint64_t kLaunched = 1U << 12U;
    static constexpr unsigned kStatusShift = 16;
    static constexpr unsigned kLapShift = 24;
    static constexpr unsigned kBatchShift = 32;

    [[nodiscard]] static constexpr std::uint64_t begin(std::uint8_t kind, std::uint64_t number) {
        return kind | ((number / kCapacity & 0xffU) << kLapShift);
    }
    /// Whether `state` belongs to the operation with this number, and not to an older operation whose record was in the
    /// same place of the ring.
    [[nodiscard]] static constexpr bool belongs(std::uint64_t state, std::uint64_t number) {
        return (state >> kLapShift & 0xffU) == (number / kCapacity & 0xffU);
    }
    /// The number of records in a rank's ring. A record has 64 bytes, so the ring takes 256 KiB.
    static constexpr std::uint64_t kCapacity = 4096;
};

/// One record, in one cache line that only its own rank writes. The rank first sets `sequence` to 0, writes the words
/// after it, and then sets `sequence` to the record's number plus 1. Later the rank writes `started`, `ended` and
/// `state`, in this order, and leaves `sequence` unchanged. This is safe because `state` says whether `started` and
/// `ended` are valid.
///
/// All stores are releases and all loads are acquires. So a reader that has seen a word of a newer operation also sees
/// that `sequence` has changed, and drops the record. Fences are not used, because ThreadSanitizer does not know them.
/// On x86-64 all these accesses are plain moves.
struct alignas(kCacheLine) OperationRecord {
    std::atomic<std::uint64_t> sequence;   ///< 0: empty, or being written
    std::atomic<std::uint64_t> announced;  ///< ticks
    /// Ticks at the start of the operation on this rank. At this time, the rank knew that all ranks had announced the
    /// operation. For a send or a receive, the rank knew that the other rank had called the matching receive or send.
    std::atomic<std::uint64_t> started;
    /// ticks at the end of the operation; for an operation on a GPU, ticks at its launch
    std::atomic<std::uint64_t> ended;
    /// The number of the operation. The operations that this rank runs in one process set are numbered from 1. For a
    /// step, this word is the number of the step. For a send or a receive, see MessageEnd.
    std::atomic<std::uint64_t> ordinal;
    /// The lower half is the number of the name in `RankRecorder::names`. The upper half contains the low bits of the
    /// generation, or 0 if the name's slot was not known yet. (The generation is the operation's number among the
    /// operations of this slot.) For an operation without a name, the upper half contains the number of the call. For a
    /// send or a receive, this word is the process set.
    std::atomic<std::uint64_t> name;
    std::atomic<std::uint64_t> size;   ///< bits 0–47: bytes; 48–55: DType; 56–63: ReduceOp
    std::atomic<std::uint64_t> state;  ///< see RecordState
};
static_assert(sizeof(OperationRecord) == kCacheLine && std::is_trivially_destructible_v<OperationRecord>);
static_assert(offsetof(OperationRecord, state) == 56);

/// The other rank of a send or a receive, and the tag, in one word. For a receive from any rank, `peer` is -1 until the
/// sender is known.
struct MessageEnd {
    std::int32_t peer = -1;  ///< a rank of the job; -1: any rank
    std::int32_t tag = 0;

    [[nodiscard]] static constexpr MessageEnd of(std::uint64_t word) {
        return {static_cast<std::int32_t>(static_cast<std::uint32_t>(word)), static_cast<std::int32_t>(word >> 32U)};
    }
    [[nodiscard]] constexpr std::uint64_t word() const {
        return static_cast<std::uint32_t>(peer) | std::uint64_t{static_cast<std::uint32_t>(tag)} << 32U;
    }
    [[nodiscard]] bool operator==(const MessageEnd&) const = default;
};

/// The kind of work that a rank did in one part of the execution of a batch. Each part has a record of its own. Some
/// words of this record have another meaning than in the record of an operation:
/// - The PartKind is in place of the DType.
/// - `ordinal` is a MessageEnd. Its `peer` is the rank for which this rank waited, and its `tag` is the number of steps
///   of the task in this part.
/// - `size` is the waiting time in ticks.
/// - `name` is the process set.
enum class PartKind : std::uint8_t {
    work,            ///< the rank did work of a kind that is not in this list
    copy_in,         ///< the rank copied its input to where other ranks read it
    reduce,          ///< the rank combined the inputs of several ranks
    copy_out,        ///< the rank copied results to its output
    network,         ///< the rank sent data to other hosts, or received data from them
    wait,            ///< the rank waited for another rank of this host
    wait_for_hosts,  ///< the rank waited for other hosts
    rest,            ///< this record stands for the 17th part and all later parts
    /// A GPU did the work of a batch. `peer` is the RecordKind of the operations, and `tag` is a GpuPart.
    gpu,
    wait_for_gpu,  ///< the rank waited for its GPU, or for NCCL
};

/// The tag of a part of the kind PartKind::gpu.
struct GpuPart {
    std::int32_t device = 0;      ///< the GPU's number in the process, below 4096
    std::int32_t operations = 0;  ///< the number of operations in the batch, at most 2^19 - 1

    [[nodiscard]] static constexpr GpuPart of(std::int32_t tag) { return {tag & 0xFFF, tag >> 12}; }
    [[nodiscard]] constexpr std::int32_t tag() const {
        return (device & 0xFFF) | (operations < 0x7FFFF ? operations : 0x7FFFF) << 12;
    }
};

/// A name of a tensor in a process set. An OperationRecord contains only the number of its name. The names are in a
/// ring too, so a newer name may have replaced this name. In that case, `number` differs from the number in the record.
struct alignas(kCacheLine) NameRecord {
    std::atomic<std::uint64_t> number;  ///< the name's number, counted from 1; 0: no name yet, or a name is being
                                        ///< written
    std::atomic<std::int32_t> set_id;
    std::atomic<std::uint32_t> hash;  ///< hash of the complete name, which may be longer than `text`
    SharedText<104> text;             ///< empty for operations without a name
};
static_assert(sizeof(NameRecord) == 2 * kCacheLine);

/// A process set to which the rank belongs, or belonged earlier.
struct alignas(kCacheLine) SetRecord {
    std::atomic<std::uint32_t> in_use;  ///< 1: the other fields are valid
    std::atomic<std::int32_t> id;
    SharedText<104> ranks;  ///< the members' ranks in the job, as format_ranks() writes them; the text is cut if there
                            ///< are too many
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

/// Counters over the life of the rank, for `rueda top` and for metrics. All stores are relaxed, because a reader never
/// combines two counters: it compares a counter only with an earlier value of the same counter.
struct RankCounters {
    /// The size of the array `of_kind`, whose index is the RecordKind of an operation. The size is a power of two, so
    /// that a mask keeps the index of a damaged record within the array.
    static constexpr std::size_t kKinds = 16;

    /// How many records were announced. This is also the number of the next record.
    alignas(kCacheLine) std::atomic<std::uint64_t> announced;

    // Only the thread that drives progress writes the following counters.
    alignas(kCacheLine) KindCounters of_kind[kKinds];        ///< indexed by the low bits of the RecordKind
    alignas(kCacheLine) std::atomic<std::uint64_t> batches;  ///< the number of batches in the log so far
    std::atomic<std::uint64_t> batched;                      ///< the number of operations in those batches
    std::atomic<std::uint64_t> parts;                        ///< the number of recorded parts of executions

    // Any thread may write the following counters. All but `messages` change rarely.
    alignas(kCacheLine) std::atomic<std::uint64_t> failed;  ///< the number of operations that ended with an error
    std::atomic<std::uint64_t> steps;                       ///< the number of steps that the program has begun
    std::atomic<std::uint64_t> step_began_ticks;            ///< when the last step began; 0: there was none
    std::atomic<std::uint64_t> step_ticks;                  ///< time between the beginnings of the last two steps; 0:
                                                            ///< unknown
    std::atomic<std::uint64_t> stall_reports;               ///< the number of stall reports that this rank made
    std::atomic<std::uint64_t> resident_bytes;              ///< bytes of resident memory that the program has allocated
    std::atomic<std::uint64_t> scopes;                      ///< recorded scopes; see RecordKind::kScope
    std::atomic<std::uint64_t> messages;                    ///< the number of sends and receives that were announced
};
static_assert(sizeof(RankCounters) == 11 * kCacheLine && RecordKind::kReduce < RankCounters::kKinds);
static_assert((RecordKind::kSend & (RankCounters::kKinds - 1)) > RecordKind::kReduce &&
              (RecordKind::kReceive & (RankCounters::kKinds - 1)) > RecordKind::kReduce);

/// The flight recorder of one rank: what the rank did last. The recorder lies in the job's shared memory, so it stays
/// readable after the rank was killed. At first the recorder consists of zeros. A page of it takes memory only after
/// the first write to the page.
struct alignas(4096) RankRecorder {
    static constexpr std::uint64_t kOperations = RecordState::kCapacity;
    static constexpr std::uint64_t kNames = 2048;
    static constexpr std::uint64_t kSets = 26;  ///< chosen so that all recorded sets fit into the recorder's first page

    // The rank writes `begin_ticks`, `begin_ns` and `realtime_ns` once, before it sets `ready`.
    std::atomic<std::uint32_t> ready;  ///< 1: the rank has begun to record
    /// 1: a thread of the rank is writing a name. If a second thread wants to write a name at this time, it does not
    /// wait but leaves the name out. The name is then written at its next use.
    std::atomic<std::uint32_t> names_taken;
    /// The time when the rank began to record, in ticks. `begin_ns` is the same time in nanoseconds. TickClock needs
    /// both numbers to convert ticks to nanoseconds.
    std::atomic<std::uint64_t> begin_ticks;
    std::atomic<std::int64_t> begin_ns;     ///< CLOCK_MONOTONIC
    std::atomic<std::int64_t> realtime_ns;  ///< CLOCK_REALTIME, at the same time as `begin_ns`

    std::atomic<std::uint64_t> names_written;  ///< the number of the name that was written last
    std::atomic<std::uint64_t> sets_written;   ///< how many sets were recorded in total; only the newest are kept
    std::atomic<std::uint32_t> notes_parts;    ///< 1: a timeline is on, so parts of executions are recorded
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
