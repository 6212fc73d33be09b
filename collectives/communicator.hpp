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
    std::byte* input = nullptr;          ///< null if the input is in the member's private memory
    std::byte* output = nullptr;         ///< null if the output is in the member's private memory
    const std::byte* payload = nullptr;  ///< the whole input, if the member's announcement contained the data itself
    std::int64_t first_dimension = 0;    ///< the number of rows of the member's input, in operations of variable size
    bool absent = false;                 ///< true in an allreduce if the member has no tensor, because it has called
                                         ///< join()
    /// For a tensor in device memory: the value of core's DeviceUse::place, which says whether and where the tensor
    /// lies in memory that NCCL allocated. It is only compared with the values of other members.
    std::uint64_t device_place = 0;
    bool counted = true;  ///< false if the member has called join() and the divisor of an average does not count it
};

/// One tensor's part of a batch: this rank's own memory, and the operation to perform.
struct Segment {
    DType dtype = DType::float32;
    ReduceOp reduce_op = ReduceOp::sum;
    double prescale = 1.0;
    double postscale = 1.0;
    /// the root's index among the process set's members on all hosts; used by a broadcast, a gather and a reduce
    std::uint32_t root = 0;
    std::uint64_t count = 0;           ///< number of elements; in operations of variable size, the elements of one row
    const std::byte* input = nullptr;  ///< a broadcast reads the input only on the root
    /// For an allgather: memory for the rows of all members. For an alltoall: memory for all rows that this rank
    /// receives. In these two operations the output may be null if this rank receives nothing. It may also be null if
    /// this rank stores no result, because it takes part only so that the other ranks can finish.
    std::byte* output = nullptr;
    /// An allreduce uses these two numbers. `absent` is the number of members on this host that have called join() (see
    /// Location). `uncounted` is the number of members on all hosts that the divisor of an average leaves out.
    std::uint32_t absent = 0;
    std::uint32_t uncounted = 0;
    Compression compression = Compression::none;  ///< how an allreduce of float32 or float64 on several hosts
                                                  ///< compresses the data between the hosts

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
    /// The row counts of an alltoall, a gather or a scatter. If all members are on one host, the list contains how many
    /// rows each member sends to each member. It is ordered by the sending member, and a sender's numbers add up to the
    /// first dimension of its input. If the members are on several hosts, the list has two parts: how many rows this
    /// rank sends to each member, and then how many rows each member sends to this rank.
    std::span<const std::int64_t> splits;
    /// The first dimensions of all members' inputs, in operations of variable size. Only process sets with members on
    /// several hosts use this list.
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

/// A batch goes through the cells (buffers) of a host's arena in chunks. This struct says which chunks these are. All
/// members on the host have the same chunks.
struct BatchChunks {
    /// The number of the batch's first chunk. The numbers continue from batch to batch, like the counters in Progress.
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
    /// Returns the chunks of the task, for reports about a task that makes no progress. Only tasks with two properties
    /// return their chunks: every member copies its input of each chunk to shared memory, and combines a share of each
    /// chunk. Other tasks return nothing. Threads: as for step().
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

    /// Whether start_splits() must be called before an alltoall or a scatter, to exchange the row counts ("splits"). If
    /// false, the ranks' announcements already contain the row counts.
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
