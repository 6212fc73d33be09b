// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "collectives/transport.hpp"
#include "core/messages/link.hpp"

namespace rueda::core {

/// To a rank of another host: each frame is a message of the job's transport. The memory that they are sent from and
/// received into is the link's, as after an abort MPI may still read and write it.
class NetworkLink final : public Link {
public:
    NetworkLink(collectives::Transport& transport, int rank) : transport_(transport), rank_(rank) {}
    ~NetworkLink() override;

    [[nodiscard]] std::size_t largest_payload() const override;
    [[nodiscard]] Result<bool> send(const Frame& frame, std::span<const std::byte> payload) override;
    [[nodiscard]] Result<std::optional<Received>> front() override;
    void pop() override;
    [[nodiscard]] bool has_to_poll() const override { return sending_ > 0 || !coming_.empty(); }

    /// Takes a message of so many bytes that the transport has told of: front() gives it when it is there. A failure of
    /// a length that no frame has.
    [[nodiscard]] Status take(std::size_t bytes);
    /// How many frames were sent so far.
    [[nodiscard]] std::uint64_t sent() const { return sent_; }

private:
    struct Message {
        std::unique_ptr<std::byte[]> memory;
        std::size_t bytes = 0;
        collectives::Transport::Ticket ticket = 0;
        bool under_way = false;
    };
    [[nodiscard]] Result<bool> has_ended(Message& message);
    [[nodiscard]] Result<bool> has_left(Message& message);
    [[nodiscard]] std::unique_ptr<std::byte[]> room();

    collectives::Transport& transport_;
    int rank_;
    std::vector<Message> out_;
    std::uint32_t sending_ = 0;
    std::uint64_t sent_ = 0;
    std::deque<Message> coming_;
    std::vector<std::unique_ptr<std::byte[]>> free_;
};

}  // namespace rueda::core
