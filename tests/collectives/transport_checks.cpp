// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/collectives/transport_checks.hpp"

#include <sched.h>

#include <chrono>
#include <vector>

#include "tests/collectives/plane_checks.hpp"

namespace rueda::tests {
namespace {

using collectives::Bytes;
using collectives::Transport;
using Channel = Transport::Channel;

constexpr int kMany = 200;

/// Makes a message whose content depends on sender, receiver, channel and number.
Bytes message(int from, int to, Channel channel, int number, std::size_t bytes) {
    return pattern(bytes, ((from * 64 + to) * 2 + static_cast<int>(channel)) * 1000 + number);
}

/// A message in transit and its memory.
struct UnderWay {
    int rank;
    Channel channel;
    int number;
    std::size_t length;
    Bytes bytes;
    Transport::Ticket ticket;
};

class Exchange {
public:
    Exchange(Transport& transport, int rank) : transport_(transport), rank_(rank) {}

    /// Starts one message in each direction. The receive buffer is larger than the message, which must be allowed.
    Status start(int peer, Channel channel, int number, std::size_t length) {
        receives_.push_back({peer, channel, number, length, Bytes(length + 5), 0});
        auto receive = transport_.receive(peer, channel, receives_.back().bytes);
        RUEDA_RETURN_IF_FAILED(receive.status());
        receives_.back().ticket = receive.value();
        sends_.push_back({peer, channel, number, length, message(rank_, peer, channel, number, length), 0});
        auto send = transport_.send(peer, channel, sends_.back().bytes);
        RUEDA_RETURN_IF_FAILED(send.status());
        sends_.back().ticket = send.value();
        return {};
    }

    /// Waits for the last receive first, because a program may wait for messages in any order.
    std::string finish_all() {
        while (!receives_.empty()) {
            const auto& receive = receives_.back();
            const auto arrived = finish(transport_, receive.ticket);
            if (!arrived.is_ok()) {
                return outcome(arrived.status());
            }
            const Bytes expected = message(receive.rank, rank_, receive.channel, receive.number, receive.length);
            if (arrived.value() != receive.length ||
                Bytes(receive.bytes.begin(), receive.bytes.begin() + static_cast<std::ptrdiff_t>(receive.length)) !=
                    expected) {
                return fmt::format("message {} of rank {} on channel {}: {} bytes, expected other {}", receive.number,
                                   receive.rank, static_cast<int>(receive.channel), arrived.value(), receive.length);
            }
            receives_.pop_back();
        }
        for (const UnderWay& send : sends_) {
            const auto left = finish(transport_, send.ticket);
            if (!left.is_ok() || left.value() != send.length) {
                return left.is_ok() ? "a send of another length" : outcome(left.status());
            }
        }
        sends_.clear();
        return "ok";
    }

private:
    Transport& transport_;
    int rank_;
    std::vector<UnderWay> receives_;
    std::vector<UnderWay> sends_;
};

}  // namespace

Result<std::size_t> finish(Transport& transport, Transport::Ticket ticket) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < deadline) {
        const auto done = transport.test(ticket);
        RUEDA_RETURN_IF_FAILED(done.status());
        if (done.value()) {
            return *done.value();
        }
        ::sched_yield();
    }
    return failure(ErrorCode::timeout, "a message did not come");
}

std::string exercise_transport(Transport& transport, int rank, int size, std::size_t longest) {
    // With these lengths, MPI sends some messages at once, and others only when their receive is posted.
    const std::vector<std::size_t> lengths{0, 1, 12, 4096, 70'000, 3};
    Exchange exchange(transport, rank);
    for (int number = 0; number < kMany; ++number) {
        for (int peer = 0; peer < size; ++peer) {
            const auto channel = number % 3 == 0 ? Channel::data : Channel::control;
            const std::size_t length = lengths[static_cast<std::size_t>(number) % lengths.size()];
            const Status status = peer == rank ? Status() : exchange.start(peer, channel, number, length);
            if (!status.is_ok()) {
                return outcome(status);
            }
        }
    }
    if (const auto result = exchange.finish_all(); result != "ok") {
        return result;
    }
    // To save memory, each rank exchanges a long message with only one other rank at a time, and begins with the
    // lowest.
    std::string result = "ok";
    for (int peer = 0; peer < size && result == "ok"; ++peer) {
        if (peer != rank) {
            const Status status = exchange.start(peer, Channel::data, 999, longest);
            result = status.is_ok() ? exchange.finish_all() : outcome(status);
        }
    }
    return result;
}

}  // namespace rueda::tests
