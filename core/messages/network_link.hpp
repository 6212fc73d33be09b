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

/// A link to a rank of another host: each frame is one message of the job's transport. The link owns the buffers for
/// sending and receiving, because MPI may still read and write them after an abort.
class NetworkLink final : public Link {
public:
    NetworkLink(collectives::Transport& transport, int rank) : transport_(transport), rank_(rank) {}
    ~NetworkLink() override;

    [[nodiscard]] std::size_t largest_whole() const override { return 8 * 1024; }
    [[nodiscard]] std::size_t largest_payload() const override;
    [[nodiscard]] Result<bool> send(const Frame& frame, std::span<const std::byte> payload) override;
    [[nodiscard]] Result<std::optional<Received>> front() override;
    void pop() override;
    [[nodiscard]] bool has_to_poll() const override { return sending_ > 0 || !coming_.empty(); }

    /// Receives a message that the transport has announced and that has this many bytes. When it has arrived, front()
    /// returns it. Fails if no frame can have this length.
    [[nodiscard]] Status take(std::size_t bytes);
    /// The number of frames sent so far.
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
