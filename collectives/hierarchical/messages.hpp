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

/// A message under way, or one that has ended.
struct Message {
    Transport::Ticket ticket = 0;
    std::size_t bytes = 0;
    std::uint32_t rank = 0;  ///< the other one
    bool under_way = false;
};

/// The messages of a communicator's tasks, and the memory that they are sent from and received into: it belongs to the
/// communicator, as after an abort MPI may still read and write it. The first failure is kept; after it nothing is
/// asked of the transport any more, and no message ends.
///
/// Threads: as Transport.
class Messages {
public:
    explicit Messages(Transport& transport)
        : transport_(transport), abandoned_(ErrorCode::aborted, "the messages between hosts were abandoned") {}
    ~Messages();
    Messages(const Messages&) = delete;
    Messages& operator=(const Messages&) = delete;

    /// Room that lives as long as this, and for good where a message is under way then. Not initialised.
    [[nodiscard]] std::byte* allocate(std::size_t bytes);

    /// `bytes` lie in allocated room.
    [[nodiscard]] Message send(std::uint32_t rank, std::span<const std::byte> bytes);
    /// So does `room`, all of which the message fills: one that does not is a failure.
    [[nodiscard]] Message receive(std::uint32_t rank, std::span<std::byte> room);
    /// Whether it has ended, which one that was never under way has.
    [[nodiscard]] bool has_ended(Message& message);

    [[nodiscard]] bool under_way() const { return under_way_ > 0; }
    [[nodiscard]] const Status& failure() const { return failure_; }
    /// A task has found that what other ranks say of their messages cannot be.
    void fail(const Status& reason) noexcept {
        if (failure_.is_ok()) {
            failure_ = reason;
        }
    }
    /// After an abort: all memory stays for as long as the process lives.
    void abandon() noexcept;

private:
    [[nodiscard]] Message started(std::uint32_t rank, std::size_t bytes, Result<Transport::Ticket> ticket);

    Transport& transport_;
    std::vector<std::unique_ptr<std::byte[]>> memory_;
    std::uint64_t under_way_ = 0;
    Status failure_;
    Status abandoned_;  // made while there is memory for it
};

}  // namespace rueda::collectives
