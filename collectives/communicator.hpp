// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/status.hpp"
#include "collectives/operation.hpp"
#include "ops/reduce.hpp"
#include "rueda/types.hpp"

namespace rueda::collectives {

/// Where the tensor of one member lies. A batch has one Location for each segment (tensor) and member. The values come
/// from the member's announcement. The pointers are addresses in this rank's mapping of the host's shared memory.
struct Location {
    std::byte* input = nullptr;          ///< null if the input is in that member's private memory
    std::byte* output = nullptr;         ///< null if the output is in that member's private memory
    const std::byte* payload = nullptr;  ///< the whole input, if that member's announcement contained the data itself
    std::int64_t first_dimension = 0;    ///< for operations of variable size: the number of rows of that member's input
    bool absent = false;                 ///< for allreduce: whether that member has called join(), and thus has no
                                         ///< tensor
    /// For a tensor in device memory: the value of core's DeviceUse::place, which says whether and where the tensor
    /// lies in memory that NCCL allocated. It is only compared with the values of other members.
    std::uint64_t device_place = 0;
    bool counted = true;  ///< for a member that has called join(): whether the divisor of an average still counts this
                          ///< member
};

/// One tensor's part of a batch: this rank's own memory, and the operation to perform.
struct Segment {
    DType dtype = DType::float32;
    ReduceOp reduce_op = ReduceOp::sum;
    double prescale = 1.0;
    double postscale = 1.0;
    /// for a broadcast, a gather and a reduce: the root's index in the process set, counted over all hosts
    std::uint32_t root = 0;
    std::uint64_t count = 0;           ///< number of elements; for operations of variable size, the elements of one row
    const std::byte* input = nullptr;  ///< a broadcast reads the input only on the root
    /// For an allgather: memory for the rows of all members. For an alltoall: memory for all rows that this rank
    /// receives. In these two operations the output may be null if this rank receives nothing. It may also be null if
    /// this rank stores no result, because it takes part only so that the other ranks can finish.
    std::byte* output = nullptr;
    /// For an allreduce: `absent` is the number of members on this host that have called join() (see Location).
    /// `uncounted` is the number of members, over all hosts, that the divisor of an average leaves out.
    std::uint32_t absent = 0;
    std::uint32_t uncounted = 0;
    Compression compression = Compression::none;  ///< how data is compressed between hosts; only an allreduce of
                                                  ///< float32 or float64 on several hosts uses this

    [[nodiscard]] std::uint64_t bytes() const { return count * size_of(dtype); }
    [[nodiscard]] ops::Reduction reduction(std::uint32_t members) const {
        return {.dtype = dtype,
                .op = reduce_op,
                .prescale = prescale,
                .postscale = postscale,
                .divisor = static_cast<int>(members - uncounted)};
    }
};

/// Operations that are executed together. All members have the same batch, except for the addresses in it.
struct Batch {
    Operation operation = Operation::allreduce;
    std::span<const Segment> segments;
    /// The locations of the first segment's tensors on all members of this host, then those of the second segment, and
    /// so on.
    std::span<const Location> locations;
    /// For alltoall, gather and scatter: the number of rows that each member sends to each member. The list is ordered
    /// by the sending member. A sender's numbers add up to the first dimension of its input. In a set on several hosts,
    /// the list has two parts instead: the numbers from this rank to each member, and then the numbers from each member
    /// to this rank.
    std::span<const std::int64_t> splits;
    /// For operations of variable size in sets on several hosts: the first dimensions of all members' inputs, over all
    /// hosts.
    std::span<const std::int64_t> rows = {};

    /// Returns the number of members on this host; 0 for a batch without tensors.
    [[nodiscard]] std::size_t local_members() const {
        return segments.empty() ? 0 : locations.size() / segments.size();
    }
    [[nodiscard]] std::span<const Location> locations_of(std::size_t segment, std::size_t members) const {
        return locations.subspan(segment * members, members);
    }
};

enum class StepResult : std::uint8_t {
    done,      ///< every output is complete, and no rank reads or writes this rank's tensors any more
    advanced,  ///< some work was done, at most about one chunk; call step() again
    waiting,   ///< the task waits for another rank of this host, which will wake this rank if it sleeps
    polling,   ///< the task waits for a message from another host, which wakes no thread when it arrives; call step()
               ///< again soon
};

/// The chunks in which a batch goes through the cells (buffers) of a host's arena. They are the same on all members of
/// the host.
struct BatchChunks {
    /// The number of the first chunk; chunks are numbered over all batches, as the counters in Progress are.
    std::uint64_t first = 0;
    std::uint64_t count = 0;
};

/// The kind of work that a step of a task did. The timeline shows it.
enum class StepWork : std::uint8_t {
    none,      ///< nothing: the task waits, or found that it is done
    other,     ///< the step did work of a kind that is not in this list
    copy_in,   ///< the step copied this rank's input to where other ranks read it
    reduce,    ///< the step reduced inputs of several ranks, as in the reduce-scatter half of an allreduce
    copy_out,  ///< the step copied results to this rank's output, as in the allgather half of an allreduce
    network,   ///< the step began or ended transfers between hosts
    /// The step did nothing, because the task waits for a device, or for a library that drives the device. The step's
    /// result is StepResult::polling.
    device_wait,
};

/// A batch in progress. One thread at a time calls step() until the task is done. After an abort the task is abandoned.
class Task {
public:
    virtual ~Task() = default;
    virtual StepResult step() = 0;
    /// Returns the chunks of the task, for reports about a task that makes no progress. A task returns its chunks only
    /// if every member copies its input of every chunk to shared memory, and combines a share of every chunk. Other
    /// tasks return nothing. Threads: as for step().
    [[nodiscard]] virtual std::optional<BatchChunks> chunks() const { return std::nullopt; }
    /// Returns what the last step did. If the step did several things, returns the last of them.
    [[nodiscard]] StepWork last_work() const { return last_work_; }

protected:
    /// A task that reports its work sets this value in each step. Other tasks leave it unchanged.
    StepWork last_work_ = StepWork::other;
};

/// Moves bytes between the members of one process set.
///
/// Threads: one at a time; this is the thread that drives progress.
class Communicator {
public:
    virtual ~Communicator() = default;
    /// Starts `batch`. The spans in `batch` must stay valid until the task is done. A communicator runs one task at a
    /// time and owns the task.
    [[nodiscard]] virtual Task& start(const Batch& batch) = 0;

    /// Whether start_splits() must be called before an alltoall or a scatter. If not, the ranks' announcements contain
    /// the row counts ("splits").
    [[nodiscard]] virtual bool exchanges_splits() const = 0;
    /// Tells every member how many rows it gets from this rank (`to`, by member), and learns how many rows this rank
    /// gets from each member (`from`). The caller must check `from`, because the numbers come from other ranks. Both
    /// spans must stay valid until the task is done. Call this only if exchanges_splits() is true.
    [[nodiscard]] virtual Task& start_splits(std::span<const std::int64_t> to, std::span<std::int64_t> from) = 0;
    /// Returns the reason why no task can continue, or success if nothing has failed.
    [[nodiscard]] virtual const Status& failed() const = 0;
    /// Call this function after an abort. The memory of unfinished messages then stays allocated until the process
    /// ends.
    virtual void abandon() = 0;
};

}  // namespace rueda::collectives
