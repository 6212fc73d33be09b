// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <unordered_map>

#include "collectives/transport.hpp"

namespace rueda::tests {

/// A transport that delays messages. Each message completes only after a random number of polls, so sends and receives
/// complete in any order. Threads: as for Transport.
class DelayedTransport final : public collectives::Transport {
public:
    DelayedTransport(std::unique_ptr<Transport> inner, std::uint32_t most, std::uint32_t seed)
        : inner_(std::move(inner)), most_(most), random_(seed) {}

    Result<Ticket> send(int rank, Port port, std::span<const std::byte> bytes) override {
        sent_bytes_ += bytes.size();
        return delayed(inner_->send(rank, port, bytes));
    }
    Result<Ticket> receive(int rank, Port port, std::span<std::byte> room) override {
        return delayed(inner_->receive(rank, port, room));
    }
    Result<std::optional<std::size_t>> test(Ticket ticket) override {
        if (std::uint32_t& left = left_[ticket]; left > 0) {
            --left;
            return std::optional<std::size_t>();
        }
        auto result = inner_->test(ticket);
        if (result.is_ok() && result.value()) {
            left_.erase(ticket);
        }
        return result;
    }
    Result<bool> cancel(Ticket ticket) override {
        left_.erase(ticket);
        return inner_->cancel(ticket);
    }
    void abandon() override { inner_->abandon(); }

    [[nodiscard]] Transport& inner() { return *inner_; }
    /// Returns the number of messages that were started and have not completed.
    [[nodiscard]] std::size_t under_way() const { return left_.size(); }
    [[nodiscard]] std::uint64_t sent_bytes() const { return sent_bytes_; }

private:
    Result<Ticket> delayed(Result<Ticket> ticket) {
        if (ticket.is_ok()) {
            left_[ticket.value()] = most_ == 0 ? 0 : static_cast<std::uint32_t>(random_() % (most_ + 1));
        }
        return ticket;
    }

    std::unique_ptr<Transport> inner_;
    std::uint32_t most_;
    std::mt19937 random_;
    std::uint64_t sent_bytes_ = 0;
    std::unordered_map<Ticket, std::uint32_t> left_;
};

}  // namespace rueda::tests
