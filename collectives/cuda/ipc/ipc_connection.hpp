// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "collectives/communicator.hpp"
#include "collectives/cuda/ipc/host_exchange.hpp"
#include "collectives/cuda/ipc/ipc_device.hpp"
#include "collectives/cuda/ipc/ipc_record.hpp"

namespace rueda::collectives::cuda {

/// The device memory that the members of a process set share. Each member has two *slots*, which all members read, and
/// scratch memory of the same size, which it uses alone.
///
/// Connecting takes two exchanges. In the first exchange, each member sends the handle of its memory. Then each member
/// opens the memory of all others, and sends the result in the second exchange. If a member fails, for example because
/// its container may not open memory of another process, all members learn of the failure and give the memory back.
///
/// Threads: one at a time.
class IpcConnection {
public:
    static constexpr std::size_t kSlots = 2;

    IpcConnection(std::shared_ptr<IpcDevice> device, HostExchange& exchange, std::uint32_t member,
                  std::uint32_t members, std::size_t slot_bytes);
    /// Closes the memory of the other members, unless keep_for_ever() was called. Before that, all work of this process
    /// that uses this memory must have ended.
    ~IpcConnection();
    IpcConnection(const IpcConnection&) = delete;
    IpcConnection& operator=(const IpcConnection&) = delete;

    enum class State : std::uint8_t { unconnected, exchanging_handles, exchanging_results, connected, refused };
    [[nodiscard]] State state() const { return state_; }
    /// Continues to connect. Call this until the state is `connected` or `refused`. A failure ends the job.
    [[nodiscard]] Result<StepResult> step(StepWork& work);
    /// The first member that cannot share memory, and its reason. All members have the same Refusal.
    struct Refusal {
        std::uint32_t member = 0;
        std::string reason{};
    };
    [[nodiscard]] const Refusal& refusal() const { return refusal_; }

    /// Returns the addresses that a slot (a buffer in device memory) of each member has in this process, by member.
    [[nodiscard]] std::span<std::byte* const> slots(std::size_t slot) const { return slots_.at(slot); }
    /// This member's scratch memory.
    [[nodiscard]] std::byte* scratch() const;
    /// Makes the destructor leave all memory open. Call this if work on the device may still use the memory.
    void keep_for_ever() { keeps_ = true; }

private:
    void begin_handles();
    Status take_handles();
    Status take_results();
    void open_all(std::span<const IpcRecord> records);
    [[nodiscard]] Result<std::vector<IpcRecord>> read_records(std::uint32_t round) const;
    [[nodiscard]] bool refuse_if_one_does(std::span<const IpcRecord> records);
    void close_all() noexcept;
    [[nodiscard]] IpcRecord own_record(std::uint32_t round) const;

    struct Peer {
        DeviceAddress address = 0;  // 0: not open
        std::uint64_t token = 0;
        std::uint64_t process = 0;
    };

    const std::shared_ptr<IpcDevice> device_;
    HostExchange& exchange_;
    const std::uint32_t member_;
    const std::uint32_t members_;
    const std::size_t slot_bytes_;
    State state_ = State::unconnected;
    Refusal refusal_;
    std::string own_failure_;            // why this member cannot share memory
    std::optional<ExportedMemory> own_;  // this member's memory; empty before the first exchange, and after a refusal
    std::vector<Peer> peers_;            // the memory of each member; for this member, it contains no address
    std::array<std::vector<std::byte*>, kSlots> slots_;
    std::vector<std::uint64_t> opened_by_;  // the processes that may have this member's memory open
    bool keeps_ = false;
};

}  // namespace rueda::collectives::cuda
