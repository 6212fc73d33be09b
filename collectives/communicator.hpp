// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/operation.hpp"
#include "ops/reduce.hpp"
#include "rueda/types.hpp"

namespace rueda::collectives {

/// Where one member's tensor of one segment lies, as that member announced it and this rank's mapping sees it.
struct Location {
    std::byte* input = nullptr;          ///< null: private memory of that member
    std::byte* output = nullptr;         ///< likewise
    const std::byte* payload = nullptr;  ///< the whole input, where it travelled with the announcement
    std::int64_t first_dimension = 0;    ///< operations by rows: rows of that member's input
    bool absent = false;                 ///< allreduce: that member has joined, and has no tensor
    bool counted = true;                 ///< where absent: an average divides by that member as well
};

/// One tensor's part of a batch: this rank's own memory, and what is to be done with it.
struct Segment {
    DType dtype = DType::float32;
    ReduceOp reduce_op = ReduceOp::sum;
    double prescale = 1.0;
    double postscale = 1.0;
    std::uint32_t root = 0;            ///< broadcast, gather, reduce: index in the set, over all hosts
    std::uint64_t count = 0;           ///< elements; of an operation by rows: of one row
    const std::byte* input = nullptr;  ///< broadcast: read on the root only
    /// Allgather: room for the rows of all members; alltoall: for all for me. Of these, and where nothing is for this
    /// rank, null: it takes part for the others' sake, and keeps nothing.
    std::byte* output = nullptr;
    /// Allreduce: so many members of this host are absent (Location); so many of all hosts' an average does not count.
    std::uint32_t absent = 0;
    std::uint32_t uncounted = 0;
    Compression compression = Compression::none;  ///< allreduce on several hosts, of float32 and float64

    [[nodiscard]] std::uint64_t bytes() const { return count * size_of(dtype); }
    [[nodiscard]] ops::Reduction reduction(std::uint32_t members) const {
        return {.dtype = dtype,
                .op = reduce_op,
                .prescale = prescale,
                .postscale = postscale,
                .divisor = static_cast<int>(members - uncounted)};
    }
};

/// What is done together: the same on every member, but for addresses.
struct Batch {
    Operation operation = Operation::allreduce;
    std::span<const Segment> segments;
    std::span<const Location> locations;  ///< segment by segment, member of this host by member
    /// alltoall, gather, scatter: how many rows each member has for each, by the first; every member's sum is its first
    /// dimension. Of a set on several hosts: how many rows this rank has for each member, then how many each has for
    /// it.
    std::span<const std::int64_t> splits;
    /// Sets on several hosts, operations by rows: first dimensions by member, over all hosts.
    std::span<const std::int64_t> rows = {};

    [[nodiscard]] std::span<const Location> locations_of(std::size_t segment, std::size_t members) const {
        return locations.subspan(segment * members, members);
    }
};

enum class StepResult : std::uint8_t {
    done,      ///< every output is there, and nobody reads or writes this rank's tensors any more
    advanced,  ///< something was done, at most about a chunk
    waiting,   ///< for another rank of this host, which will wake a sleeper
    polling,   ///< for a message from another host, of which nobody tells a sleeper: step again soon
};

/// A batch under way. Stepped by one thread at a time until it is done, or left for good after an abort.
class Task {
public:
    virtual ~Task() = default;
    virtual StepResult step() = 0;
};

/// Moves bytes between the members of one process set.
///
/// Threads: one at a time, whoever drives the engine.
class Communicator {
public:
    virtual ~Communicator() = default;
    /// Starts `batch`, whose spans stay valid until the task is done. One task at a time per communicator; the task
    /// belongs to it.
    [[nodiscard]] virtual Task& start(const Batch& batch) = 0;
};

}  // namespace rueda::collectives
