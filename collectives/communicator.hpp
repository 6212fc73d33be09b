// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.hpp"
#include "collectives/operation.hpp"
#include "ops/reduce.hpp"
#include "rueda/types.hpp"

namespace rueda::collectives {

/// The location of one member's tensor for one segment. The member announced it; the pointers are addresses in this
/// rank's mapping.
struct Location {
    std::byte* input = nullptr;          ///< null if the input is in that member's private memory
    std::byte* output = nullptr;         ///< null if the output is in that member's private memory
    const std::byte* payload = nullptr;  ///< the whole input, if the announcement contained it
    std::int64_t first_dimension = 0;    ///< in operations of variable size: the number of rows of that member's input
    bool absent = false;                 ///< in an allreduce: that member has joined, and has no tensor
    bool counted = true;                 ///< if absent: whether an average still divides by that member as well
};

/// One tensor's part of a batch: this rank's own memory, and the operation to perform.
struct Segment {
    DType dtype = DType::float32;
    ReduceOp reduce_op = ReduceOp::sum;
    double prescale = 1.0;
    double postscale = 1.0;
    std::uint32_t root = 0;            ///< for broadcast, gather and reduce: the root's index in the set, counted over
                                       ///< all hosts
    std::uint64_t count = 0;           ///< number of elements; in an operation of variable size: elements of one row
    const std::byte* input = nullptr;  ///< in a broadcast: read on the root only
    /// For an allgather: memory for the rows of all members. For an alltoall: memory for all rows that this rank
    /// receives. It may be null in these two operations, and if this rank receives nothing. With null, the rank only
    /// does its part for the other ranks, and stores no result.
    std::byte* output = nullptr;
    /// For an allreduce: `absent` is the number of absent members on this host (see Location). `uncounted` is the
    /// number of members on all hosts that an average does not count.
    std::uint32_t absent = 0;
    std::uint32_t uncounted = 0;
    Compression compression = Compression::none;  ///< for an allreduce on several hosts, for float32 and float64

    [[nodiscard]] std::uint64_t bytes() const { return count * size_of(dtype); }
    [[nodiscard]] ops::Reduction reduction(std::uint32_t members) const {
        return {.dtype = dtype,
                .op = reduce_op,
                .prescale = prescale,
                .postscale = postscale,
                .divisor = static_cast<int>(members - uncounted)};
    }
};

/// Operations that are executed together. A batch is the same on every member, except for addresses.
struct Batch {
    Operation operation = Operation::allreduce;
    std::span<const Segment> segments;
    std::span<const Location> locations;  ///< for each segment in turn, the locations of all members of this host
    /// For alltoall, gather and scatter: the number of rows from each member to each member, ordered by the sending
    /// member. The numbers of one sender add up to its first dimension. In a set on several hosts, the list has only
    /// the numbers from this rank to each member, then the numbers from each member to this rank.
    std::span<const std::int64_t> splits;
    /// For operations of variable size in sets on several hosts: the members' first dimensions, over all hosts.
    std::span<const std::int64_t> rows = {};

    [[nodiscard]] std::span<const Location> locations_of(std::size_t segment, std::size_t members) const {
        return locations.subspan(segment * members, members);
    }
};

enum class StepResult : std::uint8_t {
    done,      ///< the task is done: every output is complete, and no rank reads or writes this rank's tensors any more
    advanced,  ///< some work was done, at most about one chunk
    waiting,   ///< the task waits for another rank of this host, which will wake this rank if it sleeps
    polling,   ///< the task waits for a message from another host; its arrival wakes no thread, so call step() again
               ///< soon
};

/// What a step of a task did. The timeline shows it.
enum class StepWork : std::uint8_t {
    none,      ///< nothing: the task waits, or found that it is done
    other,     ///< something that has no name here
    copy_in,   ///< copied this rank's input to where other ranks read it
    reduce,    ///< combined the inputs of several ranks: the reduce-scatter half of an allreduce
    copy_out,  ///< copied results to this rank's output: the allgather half of an allreduce
    network,   ///< began or ended messages with other hosts
};

/// A batch in progress. One thread at a time calls step() until the task is done. After an abort the task is abandoned.
class Task {
public:
    virtual ~Task() = default;
    virtual StepResult step() = 0;
    /// What the last step did. If it did several things, what it did last.
    [[nodiscard]] virtual StepWork last_work() const { return StepWork::other; }
};

/// Moves bytes between the members of one process set.
///
/// Threads: one at a time, namely the thread that drives progress.
class Communicator {
public:
    virtual ~Communicator() = default;
    /// Starts `batch`. The spans in it must stay valid until the task is done. A communicator runs one task at a time
    /// and owns it.
    [[nodiscard]] virtual Task& start(const Batch& batch) = 0;

    /// Whether start_splits() must be called before an alltoall or a scatter. Otherwise the announcements contain the
    /// splits.
    [[nodiscard]] virtual bool exchanges_splits() const = 0;
    /// Tells every member how many rows it gets from this rank (`to`, by member), and learns how many rows this rank
    /// gets from each member (`from`). The caller must check `from`, because the numbers come from other ranks. Both
    /// spans must stay valid until the task is done. Call this only if exchanges_splits() is true.
    [[nodiscard]] virtual Task& start_splits(std::span<const std::int64_t> to, std::span<std::int64_t> from) = 0;
    /// The reason why no task can continue; a success if nothing has failed.
    [[nodiscard]] virtual const Status& failed() const = 0;
    /// Call this after an abort. It keeps the memory of unfinished messages allocated until the process ends.
    virtual void abandon() = 0;
};

}  // namespace rueda::collectives
