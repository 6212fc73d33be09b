// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "collectives/cuda/cuda_device.hpp"

namespace rueda::collectives::cuda {

/// Device memory of this process that other processes can open.
struct ExportedMemory {
    DeviceAddress address = 0;
    std::size_t bytes = 0;
    CudaIpcMemory handle{};
    std::uint64_t token = 0;  ///< a number that no other exported memory of any process has
};

/// What all process sets on a device share for CUDA IPC: a stream, and the memory of sets that have ended.
///
/// Work in the stream waits only for earlier work in the stream, so the sets cannot block each other.
///
/// *When memory is used again.* The driver's behaviour is undefined if a process frees memory that another process has
/// open (CUDA Driver API, cuIpcOpenMemHandle). A process that closes memory does not notify the owner, because the
/// owner may have left the process set already. Instead, each process keeps the tokens of the memory that it closed
/// last, and sends them to all members of the next set that it connects. When all processes that had opened a block of
/// memory have sent its token, the block can be used for another set. Rueda never frees this memory; the driver frees
/// it when the process ends. A process that was killed sends no tokens, so the memory that it had open is not used
/// again.
///
/// Threads: any thread may call any function.
class IpcDevice {
public:
    /// How many tokens (numbers of closed blocks of memory) a process can send in one exchange. If a process closes
    /// more blocks of memory than this between two exchanges, it forgets the oldest tokens, and the owner never uses
    /// those blocks again.
    static constexpr std::size_t kTokens = 48;
    using Tokens = std::array<std::uint64_t, kTokens>;

    /// `process` is the random number that identifies this process (ProcessIdentity).
    IpcDevice(std::shared_ptr<Device> device, std::uint64_t process) : device_(std::move(device)), process_(process) {}

    [[nodiscard]] Device& device() const { return *device_; }
    [[nodiscard]] std::uint64_t process() const { return process_; }
    [[nodiscard]] Result<CudaStream> stream();

    /// Returns memory of exactly `bytes` bytes: new memory, or memory of a set that has ended.
    [[nodiscard]] Result<ExportedMemory> take(std::size_t bytes);
    /// Gives memory back. The processes `opened_by` may still have it open. No work of this process may use the memory
    /// any more.
    void give_back(ExportedMemory memory, std::vector<std::uint64_t> opened_by) noexcept;

    /// Opens memory of another process, on this device or another one.
    [[nodiscard]] Result<DeviceAddress> open(const CudaIpcMemory& handle);
    /// Closes memory that open() has opened, and keeps its token for closed(). No work of this process may use the
    /// memory any more. If this process has not opened the memory and will not open it, pass the address 0.
    void close(DeviceAddress address, std::uint64_t token) noexcept;

    /// The tokens of the memory that this process closed last. The remaining entries are 0.
    [[nodiscard]] Tokens closed() const;
    /// Records that process `process` has sent these tokens, so it has closed the memory that the tokens stand for.
    void note_closed(std::uint64_t process, std::span<const std::uint64_t> tokens);

private:
    struct Retired {
        ExportedMemory memory;
        std::vector<std::uint64_t> opened_by;  // the processes that have not sent this memory's token yet, and may
                                               // still have the memory open
    };
    [[nodiscard]] Result<ExportedMemory> allocate(std::size_t bytes);

    const std::shared_ptr<Device> device_;
    const std::uint64_t process_;
    mutable std::mutex mutex_;  // guards all members below
    CudaStream stream_ = nullptr;
    std::vector<Retired> retired_;
    Tokens closed_{};
    std::size_t closed_count_ = 0;  // how many blocks of memory this process has closed so far
    std::uint64_t exports_ = 0;
};

}  // namespace rueda::collectives::cuda
