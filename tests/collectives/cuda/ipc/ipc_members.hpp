// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/cuda/plugin/cuda_runtime.hpp"
#include "collectives/host/host_communicator.hpp"
#include "tests/support/ranks.hpp"

/// In these tests, each member of a process set is a process with a device of the stand-in. Members cannot be threads,
/// because CUDA IPC opens only memory of other processes.
namespace rueda::tests {

using namespace collectives;  // NOLINT(google-build-using-namespace): tests of this room use all of it

struct IpcSetup {
    int members = 2;
    int devices = 1;  ///< the number of devices; member i uses device i modulo this number
    std::uint64_t seed = 1;
    DevicePath path = DevicePath::automatic;
    cuda::IpcSizes sizes{.slot = 4096, .least_batch = 256};
    std::chrono::microseconds delays{200};  ///< the longest time by which a simulated device delays an operation
    /// Changes a member's table of the driver's functions, to plant a defect.
    std::function<void(int member, cuda::CudaApi& api)> plant = nullptr;
};

/// The lists of an operation that moves rows.
struct IpcLists {
    std::vector<std::int64_t> rows{};    ///< the number of rows of each member's input
    std::vector<std::int64_t> splits{};  ///< the rows that each member sends to each member, ordered by the sender
};

class IpcBoard;

/// One member: a process with a runtime, its device, a stream of the "program", and buffers.
///
/// Threads: the process has one thread, apart from the threads of the simulated devices.
class IpcMember {
public:
    IpcMember(RankContext& context, const IpcSetup& setup, IpcBoard& board);
    ~IpcMember();
    IpcMember(const IpcMember&) = delete;
    IpcMember& operator=(const IpcMember&) = delete;

    [[nodiscard]] RankContext& context() { return context_; }
    [[nodiscard]] std::uint32_t number() const { return static_cast<std::uint32_t>(context_.rank()); }
    [[nodiscard]] std::uint32_t members() const { return static_cast<std::uint32_t>(context_.size()); }
    [[nodiscard]] const cuda::CudaApi& cuda() const { return api_; }
    [[nodiscard]] DeviceStream stream() const { return {device_, stream_}; }
    /// Returns the lines that the plugin wrote to the log.
    [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }
    /// Waits until all members have called this function. Throws if a member has failed.
    void meet();

    /// A set without a launch order checks from time to time whether it needs one. In these tests, it checks after this
    /// number of batches (SetCommunicator).
    static constexpr std::uint32_t kOrderInterval = 4;
    /// Makes and connects a communicator of all members. The n-th calls of all members make one communicator.
    /// Communicators with different numbers `id` are different process sets.
    [[nodiscard]] std::unique_ptr<DeviceCommunicator> connect(std::int32_t id = 0);

    /// Returns device memory. The program's stream writes `bytes` to it.
    [[nodiscard]] std::byte* put(std::span<const std::byte> bytes);
    /// Reads device memory after all work in the program's stream.
    [[nodiscard]] std::vector<std::byte> get(const std::byte* memory, std::size_t bytes);

    /// Runs one batch as the engine does: records the ready event, steps the task until it is done, and makes the
    /// program's stream wait for the end. Throws after a failure.
    void run(DeviceCommunicator& communicator, Operation operation, std::span<const Segment> segments,
             const IpcLists& lists = {});
    /// Like run(), but only records the ready event and starts the task. This object keeps the lists of the batch.
    [[nodiscard]] Task& start(DeviceCommunicator& communicator, Operation operation, std::span<const Segment> segments,
                              const IpcLists& lists = {});

private:
    void check(cuda::CudaResult result, const char* call) const;
    [[nodiscard]] std::byte* pinned(std::size_t bytes);

    RankContext& context_;
    const IpcSetup& setup_;
    IpcBoard& board_;
    const int device_;
    cuda::CudaApi api_;
    std::vector<std::string> lines_;
    std::unique_ptr<cuda::CudaDeviceRuntime> runtime_;
    std::vector<std::unique_ptr<HostCommunicator>> hosts_;
    cuda::CudaStream stream_ = nullptr;
    std::vector<DeviceEventPtr> events_;
    std::vector<Location> locations_;
    IpcLists lists_;
    std::vector<std::int64_t> own_splits_;  // the rows that this member sends, followed by the rows that it receives
};

/// Runs `body` in a process for each member. Each process reports the violations that its stand-in found as the value
/// "violations".
[[nodiscard]] RanksResult run_ipc(const IpcSetup& setup, const std::function<void(IpcMember&)>& body,
                                  const RanksOptions& options = {.as = RanksAs::processes});
/// Requires that all members have passed, and that the stand-in found no violation.
void require_ipc(const IpcSetup& setup, const std::function<void(IpcMember&)>& body);
/// All violations of all members.
[[nodiscard]] std::string violations_of(const RanksResult& result);

}  // namespace rueda::tests
