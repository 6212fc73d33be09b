// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "collectives/transport.hpp"

namespace rueda::collectives {

/// A message that is in progress or has ended.
struct Message {
    Transport::Ticket ticket = 0;
    std::size_t bytes = 0;
    std::uint32_t rank = 0;  ///< the rank of the other end: the receiver of a send, or the sender of a receive
    bool under_way = false;
};

/// The messages of a communicator's tasks, and the memory that holds their bytes. The communicator owns this memory,
/// because MPI may still read and write it after a task was aborted. The object stores the first failure. After a
/// failure it does not call the transport any more, and has_ended() stays false for messages in progress.
///
/// Threads: any thread, but only one at a time (see Transport).
class Messages {
public:
    explicit Messages(Transport& transport)
        : transport_(transport), abandoned_(ErrorCode::aborted, "the messages between hosts were abandoned") {}
    ~Messages();
    Messages(const Messages&) = delete;
    Messages& operator=(const Messages&) = delete;

    /// Returns uninitialised memory, which the destructor of this object frees. If messages are still in progress at
    /// that time, the memory is never freed, because the transport may still use the memory.
    [[nodiscard]] std::byte* allocate(std::size_t bytes);

    /// Starts a send. `bytes` must lie in memory from allocate().
    [[nodiscard]] Message send(std::uint32_t rank, std::span<const std::byte> bytes);
    /// Starts a receive. `room` must lie in memory from allocate(). A message that is shorter than `room` is a failure.
    [[nodiscard]] Message receive(std::uint32_t rank, std::span<std::byte> room);
    /// Whether the message has ended. Also true for a message that was never started.
    [[nodiscard]] bool has_ended(Message& message);

    [[nodiscard]] bool under_way() const { return under_way_ > 0; }
    [[nodiscard]] const Status& failure() const { return failure_; }
    /// Stores a failure. A task calls this function if data from another rank is not plausible.
    void fail(const Status& reason) noexcept {
        if (failure_.is_ok()) {
            failure_ = reason;
        }
    }
    /// Call this after an abort. Afterwards all memory stays allocated until the process ends.
    void abandon() noexcept;

private:
    [[nodiscard]] Message started(std::uint32_t rank, std::size_t bytes, Result<Transport::Ticket> ticket);

    Transport& transport_;
    std::vector<std::unique_ptr<std::byte[]>> memory_;
    std::uint64_t under_way_ = 0;
    Status failure_;
    Status abandoned_;  // the failure that abandon() stores; created in advance, because no memory may be left then
};

}  // namespace rueda::collectives
