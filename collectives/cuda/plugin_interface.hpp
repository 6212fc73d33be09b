// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "collectives/communicator.hpp"
#include "collectives/operation.hpp"

/// The interface between librueda.so and its plugin librueda_cuda.so, which works with NVIDIA's driver and NCCL.
/// docs/design/0020-gpu.md describes the whole path.
namespace rueda::collectives {

/// The version of the interface between librueda.so and its CUDA plugin. Increase it when you change a part of one
/// library that the other library uses.
inline constexpr std::uint32_t kCudaPluginInterface = 7;
inline constexpr const char* kCudaPluginEntry = "rueda_cuda_plugin_open";

/// A stream of the program, on one of the devices that the process sees.
struct DeviceStream {
    std::int32_t device = -1;
    void* stream = nullptr;  ///< a CUstream (cudaStream_t); null is the legacy default stream
};

/// A point in the work of a stream. When the last owner releases the event, the device runtime may record it again for
/// other work. Streams may still wait for the event at that time: recording it again does not change earlier waits
/// (CUDA Driver API, cuStreamWaitEvent).
///
/// Threads: any thread may call any function.
class DeviceEvent {
public:
    virtual ~DeviceEvent() = default;
    /// Whether the work before the event has ended. A failure is an error of the device, which may concern all work in
    /// the process.
    [[nodiscard]] virtual Result<bool> is_done() = 0;
    /// Makes the later work in `stream` wait for the event. The host does not wait.
    [[nodiscard]] virtual Status make_wait(DeviceStream stream) = 0;
    /// When the device did the work of a batch, in nanoseconds of CLOCK_MONOTONIC.
    struct Times {
        std::int64_t begin_ns = 0;
        std::int64_t end_ns = 0;
    };
    /// The times of a batch, if DeviceCommunicator::end() returned this event, and measure(true) was called before the
    /// batch was started. Call this only after is_done() has returned true. Returns nothing if the times are not known.
    [[nodiscard]] virtual std::optional<Times> times() { return std::nullopt; }
};
using DeviceEventPtr = std::shared_ptr<DeviceEvent>;

/// Memory of a device that DeviceRuntime::allocate() gave to the program. Its owners are the program, each operation
/// that uses the memory, and each communicator that has registered it. When the last owner releases the memory, streams
/// may still contain work that uses it. The memory is freed some time after the device has done this work.
struct DeviceMemory {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
    std::int32_t device = -1;
    bool is_from_nccl = false;  ///< true if NCCL allocated the memory; a communicator can then register it
    /// True after the program has freed the memory. Relaxed accesses are enough: communicators use the flag only to end
    /// registrations, and a communicator that reads an old value ends them later.
    mutable std::atomic<bool> is_given_back{false};
};
using DeviceMemoryPtr = std::shared_ptr<const DeviceMemory>;

/// Memory of the program that is registered with the driver, so that a device can copy from and to it without making
/// the host wait. The destructor does not unregister the memory.
///
/// Threads: any thread may call any function.
class PinnedMemory {
public:
    virtual ~PinnedMemory() = default;
    /// Notes that the memory may be used by all work that is now in `stream`, a stream of the memory's device. Null is
    /// the legacy default stream.
    [[nodiscard]] virtual Status note_work(void* stream) = 0;
    /// Whether the device has done all work that was noted. Does not wait.
    [[nodiscard]] virtual Result<bool> is_idle() = 0;
    /// Unregisters the memory. Call it only once, and only if is_idle() is true. Must not be called by a thread that
    /// drives progress, because the driver may wait for the device.
    [[nodiscard]] virtual Status unpin() = 0;
};

/// Says for one tensor whether the members of a process set use memory that NCCL allocated. NCCL demands that either
/// all members pass registered memory to a function, or none (NCCL User Guide, "User Buffer Registration").
enum class NcclMemory : std::uint8_t {
    none,  ///< no member uses such memory
    /// All members' inputs and outputs are in memory that NCCL allocated. If NCCL requires equal offsets there, the
    /// offsets are equal on all members.
    all,
    some,  ///< anything else
};
/// The memory of this member's tensor. The value `use` is the same on all members.
struct TensorMemory {
    DeviceMemoryPtr input{};  ///< null if DeviceRuntime::allocate() did not make the memory
    DeviceMemoryPtr output{};
    NcclMemory use = NcclMemory::none;
};

/// Operations on tensors in device memory that are executed together. All members have the same batch, except for the
/// addresses in it.
struct DeviceBatch {
    Operation operation = Operation::allreduce;
    /// The same as Batch::segments, but with addresses in device memory. A member that has called join() has a null
    /// input and a null output.
    std::span<const Segment> segments{};
    /// For each segment, the event after which its input may be read and its output written. Null for a member that has
    /// called join().
    std::span<const DeviceEventPtr> ready{};
    /// For each segment, the memory in which it lies. Empty if all of it is memory of the program.
    std::span<const TensorMemory> memory{};
    /// For an allgather and a reducescatter: the first dimensions of all members' inputs.
    std::span<const std::int64_t> rows{};
    /// For an alltoall, a gather and a scatter: the rows that this rank sends to each member, and then the rows that it
    /// receives from each member.
    std::span<const std::int64_t> splits{};
    /// The same batch in the form in which the set's communicator for the CPU would get it, but with addresses in
    /// device memory. A scatter is an alltoall here if the members have exchanged their splits.
    Batch host{};
};

/// Resident memory: memory of this rank that the other members of a process set on one host can read and write.
///
/// Threads: only the thread that drives progress.
class SharedMemory {
public:
    virtual ~SharedMemory() = default;
    struct Block {
        std::byte* memory = nullptr;
        std::uint64_t offset = 0;  ///< names the block to the other members
    };
    /// Allocates a block that begins at a page.
    [[nodiscard]] virtual Result<Block> allocate(std::size_t bytes) = 0;
    /// Frees a block. Unless the job was aborted, no member may still use the block.
    virtual void deallocate(std::byte* memory) noexcept = 0;
    /// Keeps a block mapped until the process ends. Call this for a block that cannot be freed, because the driver has
    /// pinned it and a device may still use it.
    virtual void keep_mapped(std::byte* memory) noexcept = 0;
    /// Returns the address of a member's memory in this rank's mapping. Returns null if the bytes are not in the
    /// member's shared memory.
    [[nodiscard]] virtual std::byte* of_member(std::uint32_t member, std::uint64_t offset, std::size_t bytes) const = 0;
};

/// How tensors in device memory move between the members of a process set: the setting RUEDA_GPU_PATH.
enum class DevicePath : std::uint8_t {
    automatic = 0,  ///< NCCL if it can connect the members, otherwise CUDA IPC and the host's memory
    nccl = 1,       ///< NCCL only; what NCCL cannot do is refused
    host = 2,       ///< the host's memory only
    ipc = 3,        ///< as `automatic`, but without NCCL
};
[[nodiscard]] constexpr bool allows_nccl(DevicePath path) {
    return path == DevicePath::automatic || path == DevicePath::nccl;
}

/// This rank's place in a process set, for a device communicator.
struct DeviceSet {
    std::int32_t device = -1;   ///< the device of this rank in the set
    std::uint32_t member = 0;   ///< this rank's number among the members
    std::uint32_t members = 1;  ///< the number of members on all hosts
    std::int32_t id = 0;        ///< the process set's number
    DevicePath path = DevicePath::automatic;
    /// The members' ranks in the job. If the list is empty, a member's rank is its number among the members.
    std::vector<std::int32_t> ranks{};
    /// Whether this rank is in other process sets that may use devices, too. If so, and if NCCL connects the members,
    /// each batch of this set gets a place in the launch order of all sets. This costs a small exchange for each batch.
    bool expects_other_sets = false;
    /// The memory that the members share; null if the members are on several hosts. The communicator keeps the object.
    std::shared_ptr<SharedMemory> shared{};
};

/// The state of a batch that is not launched yet, or that moves through the host's memory or CUDA IPC. For stall
/// reports.
enum class LaunchPhase : std::uint8_t {
    agrees_on_order,  ///< the members agree on the batch's place in the order of all process sets
    waits_for_set,    ///< the batch of another process set goes first: DeviceCommunicator::awaited_set()
    waits_for_turn,   ///< another communicator of the process puts its work into the stream
    launching,        ///< this communicator puts its work into the stream
    // Tensors that move through the host's memory:
    waits_for_inputs,  ///< the device has not done the work that the program submitted before its call
    copies,            ///< the device copies tensors between its memory and the host's
    on_cpu,            ///< the set's communicator for the CPU works on a part of the tensors
    // Tensors that move through device memory that the members share by CUDA IPC:
    in_peer_memory,  ///< the device copies a part into shared device memory, or combines a part there
    meets_peers,     ///< this member has done its share of a part, and waits for the shares of the other members
};

/// The work that the device executes in Rueda's stream for the last launched batch. Stall reports name it.
enum class DeviceCall : std::uint8_t {
    unknown,  ///< nothing, or a batch without data
    nccl_all_reduce,
    nccl_broadcast,
    nccl_reduce,
    nccl_all_gather,
    nccl_reduce_scatter,
    nccl_messages,           ///< ncclSend and ncclRecv
    packed_nccl_all_reduce,  ///< ncclAllReduce, with kernels before and after it that pack and unpack small tensors
    copies,                  ///< copies between the device's memory and the host's
    peer_kernels,            ///< kernels and copies in device memory that the members share by CUDA IPC
};

/// Moves tensors in device memory between the members of one process set. The members first exchange offers, then
/// connect, and then start batches, all in the order of the set's log.
///
/// Threads: one at a time, the thread that drives progress. abort() may be called by any thread while no other call is
/// running.
class DeviceCommunicator {
public:
    /// What a member tells the other members before they connect: its versions and its device. The first member also
    /// tells them the identifier of the communicator.
    static constexpr std::size_t kOfferBytes = 512;
    using Offer = std::array<std::byte, kOfferBytes>;

    virtual ~DeviceCommunicator() = default;
    /// Returns this member's offer. If this member cannot take part, the offer says why, so that all members learn the
    /// reason.
    [[nodiscard]] virtual Offer offer() = 0;
    /// Begins to connect the members. `offers` has one element for each member. The offers come from other processes,
    /// so this function checks them. All members make the same decision whether NCCL or the host's memory moves their
    /// tensors. If the members' settings or devices do not allow a connection, all members return the same error.
    [[nodiscard]] virtual Status connect(std::span<const Offer> offers) = 0;
    /// Whether the members are connected. Does not wait.
    [[nodiscard]] virtual Result<bool> is_connected() = 0;

    /// Returns Unsupported, with what to do, if the members cannot do the operation with this tensor. This happens if
    /// NCCL lacks the operation and the setting RUEDA_GPU_PATH allows NCCL only. The result depends only on values that
    /// are equal on all members, and not on addresses. Call this before start(): a task with such a tensor fails.
    /// Threads: any thread.
    [[nodiscard]] virtual Status check(Operation operation, const Segment& segment) const = 0;
    /// Starts `batch`, whose spans must stay valid until the task is done. The task is done when all work has been
    /// given to the device, and the event of end() was recorded after it. The work itself may still run. A communicator
    /// runs one task at a time and owns it. The task may run tasks of the set's communicator for the CPU, so no other
    /// task of that communicator may be in progress. If a step fails, failed() has the reason, and the task never
    /// becomes done.
    [[nodiscard]] virtual Task& start(const DeviceBatch& batch) = 0;
    /// If `measures` is true, the end events (end()) of the next batches also record when the device does the work of
    /// the batch. A timeline needs these times. They cost two events with times for each batch.
    virtual void measure(bool /*measures*/) {}
    /// How far the task in progress is.
    [[nodiscard]] virtual LaunchPhase launch_phase() const { return LaunchPhase::launching; }
    /// The number of the process set whose batch goes first. Valid if launch_phase() is LaunchPhase::waits_for_set.
    [[nodiscard]] virtual std::int32_t awaited_set() const { return -1; }
    /// Returns the work that the device executes for the last task that was done.
    [[nodiscard]] virtual DeviceCall last_call() const { return DeviceCall::unknown; }
    /// Returns the event after the work of the last task that was done, and of all earlier tasks.
    [[nodiscard]] virtual DeviceEventPtr end() = 0;
    /// Looks for errors of the communication that came after a task was done. Returns the reason why no task can
    /// continue, or success.
    [[nodiscard]] virtual Status failed() = 0;
    /// Drops the task in progress, if there is one. It will not be stepped again, and the communicator starts no other
    /// task. Batches of other process sets then do not wait for this task.
    virtual void abandon() noexcept {}
    /// Ends all work that waits for other members. After this call, only the destructor may be called. Does not wait.
    /// If several communicators of the process fail, abort all of them before you destroy the first. Otherwise the end
    /// of one communicator can wait for the work of another.
    virtual void abort() noexcept = 0;
};

/// A tensor that each replica of a DeviceTeam has in the memory of its device.
struct TeamTensor {
    DType dtype = DType::float32;
    std::size_t count = 0;               ///< the elements
    std::vector<std::byte*> replicas{};  ///< the address on each replica
    [[nodiscard]] std::size_t bytes() const { return count * size_of(dtype); }
};

struct DeviceTeamPlan {
    std::vector<DeviceStream> replicas{};  ///< the device of each replica, and the stream of the program there
    std::vector<TeamTensor> tensors{};
    std::size_t summed = 0;       ///< how many tensors ready() accepts: the first ones in `tensors`
    ReduceOp op = ReduceOp::sum;  ///< sum or average over the replicas
    double postscale = 1.0;       ///< factor for the sum or the average
};

/// Adds up and copies tensors among several replicas of a model in one process. Each replica is on a device; several
/// replicas may be on one device. The object has a stream of its own on each device. No call waits for a device. The
/// object's work on the devices never waits for another process, but only for events that were recorded before.
///
/// Threads: any thread may call any function. If a call fails, the contents of the tensors are undefined.
class DeviceTeam {
public:
    /// The memory of the object is freed after the devices have done the object's work.
    virtual ~DeviceTeam() = default;
    /// The object's stream on the device of replica 0.
    [[nodiscard]] virtual DeviceStream stream() const = 0;
    /// Call this after replica `replica` has put the work that writes `tensor` into its stream. The call for the last
    /// replica puts the sum into the streams of the object, and returns true. The sum replaces the tensor of replica 0.
    /// Work that is put into stream() after this call can read the sum. If the call fails, it may be repeated.
    [[nodiscard]] virtual Result<bool> ready(std::size_t replica, std::size_t tensor) = 0;
    /// Makes the streams of the object wait for all work that is in the streams of the replicas now.
    [[nodiscard]] virtual Status follow() = 0;
    /// Copies the tensor of replica 0 to all other replicas, after the work in stream().
    [[nodiscard]] virtual Status distribute(std::size_t tensor) = 0;
    /// Makes the streams of all replicas wait for all work that is in the streams of the object now. If ready() was
    /// called for only some replicas of a tensor, these calls no longer count.
    [[nodiscard]] virtual Status join() = 0;
};

/// The devices of this process. There is one object for the whole process.
///
/// Threads: any thread may call any function.
class DeviceRuntime {
public:
    virtual ~DeviceRuntime() = default;
    /// Records an event at the end of the work that the program has put into the stream until now. Does not wait for
    /// this work. This function also frees the memory that deallocate() has taken back. While memory is freed, the
    /// driver may make the calling thread wait for work of the device. A thread that drives progress must therefore not
    /// call this function. Returns InvalidArgument if the device does not exist, and Unsupported if the stream captures
    /// a graph: a replay of the graph would bypass the order that the ranks have agreed on (the log).
    [[nodiscard]] virtual Result<DeviceEventPtr> record(DeviceStream stream) = 0;
    /// Opens NCCL, if it is not open yet. This takes long, so the program's own thread calls this before the first
    /// operation of a process set that may use NCCL. If NCCL cannot be opened, the communicators' offers give the
    /// reason.
    virtual void open_nccl() = 0;
    /// Gets an identifier for a communicator from NCCL, and keeps it for the next communicator in which this rank is
    /// the first member. NCCL may wait for the network meanwhile, so the program's own thread calls this once for each
    /// process set. If no identifier was kept, the communicator asks NCCL for one itself, in the thread that drives
    /// progress.
    virtual void prepare_nccl_id() = 0;
    /// Makes a communicator for tensors on the set's device. `host` is the set's communicator for the CPU, which must
    /// outlive the result. The result uses `host` only while one of the result's own tasks is stepped.
    [[nodiscard]] virtual Result<std::unique_ptr<DeviceCommunicator>> make_communicator(const DeviceSet& set,
                                                                                        Communicator& host) = 0;

    /// Returns memory of the host. `device` can copy to and from this memory without making the host wait. When the
    /// last owner releases the memory, it may be used again for other copies. So release it only after all copies that
    /// use it have ended.
    [[nodiscard]] virtual Result<std::shared_ptr<std::byte>> host_memory(std::int32_t device, std::size_t bytes) = 0;
    /// Copies between memory of `device` and memory from host_memory(). The device begins the copy after the event
    /// `after`. If `after` is null, the copy waits only for other copies whose `after` is null. Returns the event after
    /// the copy. This function does not wait.
    [[nodiscard]] virtual Result<DeviceEventPtr> copy(std::int32_t device, std::byte* to, const std::byte* from,
                                                      std::size_t bytes, const DeviceEventPtr& after) = 0;

    /// Allocates memory of `device` for the program. NCCL allocates it if `path` allows NCCL, and if this version of
    /// NCCL can allocate memory. Otherwise the driver allocates it. The contents are undefined. Must not be called by a
    /// thread that drives progress, because the driver may wait for the device.
    [[nodiscard]] virtual Result<std::byte*> allocate(std::int32_t device, std::size_t bytes, DevicePath path) = 0;
    /// Takes back memory that allocate() returned. Returns false if `memory` is not the beginning of such memory.
    /// Threads: the same as for allocate().
    [[nodiscard]] virtual bool deallocate(const void* memory) = 0;
    /// Returns the memory of allocate() that contains `address`; null if there is none.
    [[nodiscard]] virtual DeviceMemoryPtr memory_of(const std::byte* address) = 0;

    /// Registers memory of the program, which must begin at a page. Threads: the same as for allocate().
    [[nodiscard]] virtual Result<std::unique_ptr<PinnedMemory>> pin(std::int32_t device, std::byte* memory,
                                                                    std::size_t bytes) = 0;

    /// Makes an object for the replicas of a model on the devices of this process. Returns Unsupported if a device has
    /// no kernels, and InvalidArgument if there are too many replicas. Threads: any thread except one that drives
    /// progress, because the driver allocates memory.
    [[nodiscard]] virtual Result<std::unique_ptr<DeviceTeam>> make_team(DeviceTeamPlan plan) = 0;
};

struct DeviceRuntimeOptions {
    std::string nccl_library{};  ///< the path in the setting RUEDA_NCCL_LIBRARY; if empty, NCCL is searched
                                 ///< (docs/gpu.md)
    /// The runtime calls this function with a line for the log.
    std::function<void(const std::string& text)> note{};
    /// The runtime calls this function with a warning for the log.
    std::function<void(const std::string& text)> warn{};
};

/// The functions of the plugin. The object lies in the plugin's library, which is never unloaded, because the driver
/// cannot be unloaded.
struct CudaPlugin {
    std::uint32_t interface_version;
    const char* rueda_version;
    /// Opens the driver. Creates no context: a context comes with the first use of a device. Returns Unsupported, with
    /// what to do, if the machine has no driver or no device. NCCL is opened with the first operation of a process set,
    /// because then the program's own framework has loaded its NCCL.
    Result<std::unique_ptr<DeviceRuntime>> (*open)(const DeviceRuntimeOptions& options);
};

}  // namespace rueda::collectives
