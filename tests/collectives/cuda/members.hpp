// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "collectives/cuda/load_cuda.hpp"
#include "collectives/cuda/nccl/load_nccl.hpp"
#include "collectives/cuda/plugin/cuda_runtime.hpp"
#include "collectives/host/arena/arena.hpp"

/// Members of process sets as threads, each with a device of the stand-in.
namespace rueda::tests {

using namespace collectives;  // NOLINT(google-build-using-namespace): tests of this room use all of it

/// The tables of the stand-in, as the plugin finds them. A test plants a defect by replacing a function.
struct GpuTables {
    cuda::CudaApi cuda;
    cuda::NcclApi nccl;
    int nccl_version = 22809;
    /// The text of the kernels. If the text is empty, the plugin has no kernels.
    std::string_view kernels{};
};
[[nodiscard]] GpuTables tables_of_stand_in();

/// Data that all members of one test share.
struct Meeting {
    explicit Meeting(std::uint32_t count)
        : members(count), offers(count), splits(count), barrier(static_cast<std::ptrdiff_t>(count)) {}
    using Set = std::vector<std::uint32_t>;
    /// Returns a mapping of the memory that the members of a set share. `place` is the position of the calling member
    /// in the set. If the members make several communicators of this set, the n-th communicators of all members share
    /// one memory.
    [[nodiscard]] std::shared_ptr<Arena> map_arena(const Set& set, std::size_t nth, std::uint32_t place);

    const std::uint32_t members;
    std::vector<DeviceCommunicator::Offer> offers;
    std::vector<std::vector<std::int64_t>> splits;  ///< the splits of each member in the current exchange
    std::barrier<> barrier;                         ///< all members wait here for each other

private:
    std::mutex mutex_;  // guards arenas_
    std::map<std::pair<Set, std::size_t>, base::UniqueFd> arenas_;
};

/// One member: a runtime of its own, its device, a stream of the "program", and buffers.
///
/// Threads: the member's own thread.
class Member {
public:
    /// `piece_bytes`: see StagedTask.
    Member(GpuTables tables, Meeting& meeting, std::uint32_t number, int device, std::size_t piece_bytes);
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    [[nodiscard]] std::uint32_t number() const { return number_; }
    [[nodiscard]] std::uint32_t members() const { return meeting_.members; }
    [[nodiscard]] int device() const { return device_; }
    [[nodiscard]] const cuda::CudaApi& cuda() const { return tables_.cuda; }
    [[nodiscard]] DeviceRuntime& runtime() { return *runtime_; }
    [[nodiscard]] DeviceStream stream() const { return {device_, stream_}; }
    /// Leaves the member's device memory allocated when the member ends. A test needs this if its batch fails after
    /// NCCL has begun to use the memory. In this case there is no event that shows when the memory may be freed.
    void keep_memory() { keeps_memory_ = true; }
    /// The setting RUEDA_GPU_PATH of the communicators that are made from here on.
    void set_path(DevicePath path) { path_ = path; }
    /// How long a member waits for others before the test fails. ThreadSanitizer on a busy machine needs many seconds.
    static constexpr std::chrono::seconds kPatience{100};
    /// A set without a launch order checks from time to time whether it needs one. In these tests, it checks after this
    /// number of batches (SetCommunicator).
    static constexpr std::uint32_t kOrderInterval = 4;
    /// Plants a defect in the communicators that are made from here on. The members of a set should use the highest of
    /// their proposals as the number of a batch. With the defect, each member uses its own proposal.
    void keep_own_proposals() { keeps_own_proposals_ = true; }
    /// The communicators that are made from here on get memory that all members share, of at most `bytes` bytes.
    void share_memory(std::size_t bytes = std::size_t{2} << 20) { shared_bytes_ = bytes; }
    /// The warnings that the plugin wrote.
    [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
    void meet() { meeting_.barrier.arrive_and_wait(); }

    /// Makes a communicator of all members. Returns the result of its connect().
    [[nodiscard]] Status make(std::unique_ptr<DeviceCommunicator>& communicator);
    /// Makes and connects a communicator of all members. Throws if this fails.
    [[nodiscard]] std::unique_ptr<DeviceCommunicator> connect();
    /// Makes and connects a communicator of the given members, which are in ascending order. All members must call this
    /// function. Returns null on members that are not in the list. Communicators with the same number `id` count as one
    /// process set, so the members agree on no launch order between them.
    [[nodiscard]] std::unique_ptr<DeviceCommunicator> connect(const std::vector<std::uint32_t>& set,
                                                              std::int32_t id = 0);
    /// From here on, new communicators of this member expect other process sets on the same device.
    void expect_other_sets() { expects_other_sets_ = true; }
    /// Waits until the communicator is connected. Throws after a failure, or if this takes too long.
    static void wait_until_connected(DeviceCommunicator& communicator);

    /// put() returns device memory with these bytes. garbage() returns this number of bytes of device memory, with
    /// arbitrary contents. The program's stream writes the bytes.
    [[nodiscard]] std::byte* put(std::span<const std::byte> bytes);
    [[nodiscard]] std::byte* garbage(std::size_t bytes);
    /// Reads device memory after all work in the program's stream.
    [[nodiscard]] std::vector<std::byte> get(const std::byte* memory, std::size_t bytes);

    /// Runs one batch as the engine does: records the ready event, steps the task until it is done, and makes the
    /// program's stream wait for the end. Returns the failure of the communicator, if there is one. Also fills in
    /// the parts of the batch that the CPU's communicator needs. In an exchange, these are the splits of all members,
    /// so all members must call this function.
    [[nodiscard]] Status run(DeviceCommunicator& communicator, DeviceBatch batch);
    /// Steps the task until it is done or has failed. Returns a timeout after `limit`.
    [[nodiscard]] static Status drive(DeviceCommunicator& communicator, Task& task,
                                      std::chrono::milliseconds limit = kPatience);

    /// Makes a communicator of the given members. Does not exchange the members' offers.
    [[nodiscard]] std::unique_ptr<DeviceCommunicator> make_communicator(const std::vector<std::uint32_t>& set,
                                                                        std::int32_t id = 0);
    [[nodiscard]] std::vector<std::uint32_t> all_members() const;

private:
    /// The lists of a batch for the communicator of the CPU.
    struct HostLists {
        std::vector<Location> locations;
        std::vector<std::int64_t> splits;
    };
    [[nodiscard]] Batch host_batch(const DeviceBatch& batch, HostLists& lists);
    [[nodiscard]] std::byte* allocate(std::size_t bytes);
    void check(cuda::CudaResult result, const char* call) const;

    const GpuTables tables_;
    Meeting& meeting_;
    const std::uint32_t number_;
    const int device_;
    const std::size_t piece_bytes_;
    DevicePath path_ = DevicePath::automatic;
    bool expects_other_sets_ = false;
    bool keeps_own_proposals_ = false;
    std::size_t shared_bytes_ = 0;
    std::vector<std::string> warnings_;
    std::unique_ptr<cuda::CudaDeviceRuntime> runtime_;
    std::map<std::vector<std::uint32_t>, std::size_t> made_;  // the number of communicators that were made for each set
    std::vector<std::unique_ptr<Communicator>> hosts_;
    cuda::CudaContext context_ = nullptr;
    cuda::CudaStream stream_ = nullptr;
    std::vector<cuda::DeviceAddress> memory_;
    bool keeps_memory_ = false;
    std::vector<void*> pinned_;
};

/// Starts one thread for each member, and runs `body` in it. Member i has device i modulo `devices`. Throws the first
/// exception of a body. Before the bodies run, resets the stand-in with `seed`. Afterwards, requires that the stand-in
/// found no misuse.
void run_members(std::uint32_t members, int devices, std::uint64_t seed, const std::function<void(Member&)>& body,
                 const GpuTables* tables = nullptr, std::size_t piece_bytes = cuda::StagedTask::kPieceBytes);
/// Like run_members(), but returns the complaints of the stand-in and of the bodies, and requires nothing.
[[nodiscard]] std::vector<std::string> complaints_of_members(std::uint32_t members, int devices, std::uint64_t seed,
                                                             const std::function<void(Member&)>& body,
                                                             const GpuTables& tables,
                                                             std::size_t piece_bytes = cuda::StagedTask::kPieceBytes);
/// Runs `body` three times. The first time, it runs with NCCL and a device for each member. The other two times, all
/// members use one device, and the data move through the host's memory in small pieces: once without and once with
/// memory that the members share.
void run_both_ways(std::uint32_t members, std::uint64_t seed, const std::function<void(Member&)>& body);

}  // namespace rueda::tests
