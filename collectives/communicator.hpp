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

/// Where one member's tensor of one segment lies, as that member announced it and as this rank's mapping shows it.
struct Location {
    std::byte* input = nullptr;          ///< null: private memory of that member
    std::byte* output = nullptr;         ///< null: private memory of that member
    const std::byte* payload = nullptr;  ///< the whole input, if it travelled with the announcement
    std::int64_t first_dimension = 0;    ///< in operations of variable size: the number of rows of that member's input
    bool absent = false;                 ///< allreduce: that member has joined, and has no tensor
    bool counted = true;                 ///< if absent: whether an average still divides by that member as well
};

/// One tensor's part of a batch: this rank's own memory, and what has to be done with it.
struct Segment {
    DType dtype = DType::float32;
    ReduceOp reduce_op = ReduceOp::sum;
    double prescale = 1.0;
    double postscale = 1.0;
    std::uint32_t root = 0;            ///< broadcast, gather, reduce: index in the set, counted over all hosts
    std::uint64_t count = 0;           ///< number of elements; for an operation of variable size: elements of one row
    const std::byte* input = nullptr;  ///< broadcast: read on the root only
    /// For an allgather: room for the rows of all members. For an alltoall: room for all rows for this rank. In these
    /// two operations, and if nothing is for this rank, it may be null: the rank then takes part only for the others,
    /// and keeps nothing.
    std::byte* output = nullptr;
    /// For an allreduce: the number of absent members of this host (Location), and the number of members of all hosts
    /// that an average does not count.
    std::uint32_t absent = 0;
    std::uint32_t uncounted = 0;
    Compression compression = Compression::none;  ///< allreduce on several hosts, for float32 and float64

    [[nodiscard]] std::uint64_t bytes() const { return count * size_of(dtype); }
    [[nodiscard]] ops::Reduction reduction(std::uint32_t members) const {
        return {.dtype = dtype,
                .op = reduce_op,
                .prescale = prescale,
                .postscale = postscale,
                .divisor = static_cast<int>(members - uncounted)};
    }
};

/// The operations that are executed together. A batch is the same on every member, except for addresses.
struct Batch {
    Operation operation = Operation::allreduce;
    std::span<const Segment> segments;
    std::span<const Location> locations;  ///< for each segment, the locations of all members of this host
    /// For alltoall, gather and scatter: how many rows each member has for each member, ordered by the giving member.
    /// Each member's numbers add up to its first dimension. In a set on several hosts: how many rows this rank has for
    /// each member, then how many each member has for this rank.
    std::span<const std::int64_t> splits;
    /// For operations of variable size in sets on several hosts: the members' first dimensions, over all hosts.
    std::span<const std::int64_t> rows = {};

    [[nodiscard]] std::span<const Location> locations_of(std::size_t segment, std::size_t members) const {
        return locations.subspan(segment * members, members);
    }
};

enum class StepResult : std::uint8_t {
    done,      ///< every output is complete, and no rank reads or writes this rank's tensors any more
    advanced,  ///< something was done, at most about a chunk
    waiting,   ///< waits for another rank of this host, which will wake this rank if it sleeps
    polling,   ///< waits for a message from another host, whose arrival wakes no thread: step again soon
};

/// A batch in progress. One thread at a time steps it until it is done, or abandons it after an abort.
class Task {
public:
    virtual ~Task() = default;
    virtual StepResult step() = 0;
};

/// Moves bytes between the members of one process set.
///
/// Threads: one at a time, the thread that drives progress.
class Communicator {
public:
    virtual ~Communicator() = default;
    /// Starts `batch`, whose spans must stay valid until the task is done. A communicator runs one task at a time and
    /// owns it.
    [[nodiscard]] virtual Task& start(const Batch& batch) = 0;

    /// Whether start_splits() runs before an alltoall or a scatter. Otherwise the splits travel with the announcements.
    [[nodiscard]] virtual bool exchanges_splits() const = 0;
    /// Tells every member how many rows it gets (`to`, by member) and learns how many rows each member has for this
    /// rank
    /// (`from`). The caller must check `from`, because the numbers come from other ranks. Both spans must stay valid
    /// until the task is done. Called only if exchanges_splits() is true.
    [[nodiscard]] virtual Task& start_splits(std::span<const std::int64_t> to, std::span<std::int64_t> from) = 0;
    /// The reason why no task can go on any more.
    [[nodiscard]] virtual const Status& failed() const = 0;
    /// Called after an abort. The memory of unfinished messages is kept until the process ends.
    virtual void abandon() = 0;
};

}  // namespace rueda::collectives
