// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/ranks/thread_transport.hpp"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/assert.hpp"
#include "collectives/control_plane.hpp"

namespace rueda::collectives {
namespace {

/// The messages in transit. Threads: all, under the mutex.
class Network {
public:
    explicit Network(int size) : cut_(static_cast<std::size_t>(size), false) {}

    void put(int from, int to, Transport::Port port, std::span<const std::byte> bytes) {
        const std::lock_guard lock(mutex_);
        if (!is_cut(from) && !is_cut(to)) {
            messages_[{from, to, port}].emplace_back(bytes.begin(), bytes.end());
        }
    }
    std::optional<Bytes> take(int from, int to, Transport::Port port) {
        const std::lock_guard lock(mutex_);
        std::deque<Bytes>& queue = messages_[{from, to, port}];
        if (queue.empty()) {
            return std::nullopt;
        }
        Bytes bytes = std::move(queue.front());
        queue.pop_front();
        return bytes;
    }
    /// Returns the first message in transit to this rank, from any sender.
    std::optional<Transport::Arrival> find(int to, Transport::Port port) {
        const std::lock_guard lock(mutex_);
        for (const auto& [key, queue] : messages_) {
            if (std::get<1>(key) == to && std::get<2>(key) == port && !queue.empty()) {
                return Transport::Arrival{std::get<0>(key), queue.front().size()};
            }
        }
        return std::nullopt;
    }
    void cut(int rank) {
        const std::lock_guard lock(mutex_);
        cut_[static_cast<std::size_t>(rank)] = true;
    }

private:
    [[nodiscard]] bool is_cut(int rank) const { return cut_[static_cast<std::size_t>(rank)]; }

    std::mutex mutex_;
    std::map<std::tuple<int, int, Transport::Port>, std::deque<Bytes>> messages_;
    std::vector<bool> cut_;
};

/// Relaxed suffices: a test reads the number only after the ranks have told it that their calls are over.
std::atomic<std::uint64_t> calls_with_sigpipe{0};

class ThreadTransport final : public Transport {
public:
    ThreadTransport(std::shared_ptr<Network> network, int rank) : network_(std::move(network)), rank_(rank) {}

    Result<Ticket> send(int rank, Port port, std::span<const std::byte> bytes) override {
        RUEDA_RETURN_IF_FAILED(check_open());
        network_->put(rank_, rank, port, bytes);
        under_way_.emplace(next_, UnderWay{rank, port, {}, bytes.size(), true});
        return next_++;
    }
    Result<Ticket> receive(int rank, Port port, std::span<std::byte> room) override {
        RUEDA_RETURN_IF_FAILED(check_open());
        under_way_.emplace(next_, UnderWay{rank, port, room, 0, false});
        waiting_[{rank, port}].push_back(next_);
        if (port.channel == Channel::messages) {
            // The receive takes the message at once, so that probe() does not find the message any more.
            RUEDA_RETURN_IF_FAILED(deliver({rank, port}));
        }
        return next_++;
    }
    Result<std::optional<std::size_t>> test(Ticket ticket) override {
        RUEDA_RETURN_IF_FAILED(check_open());
        const auto found = under_way_.find(ticket);
        RUEDA_ASSERT(found != under_way_.end());
        RUEDA_RETURN_IF_FAILED(deliver({found->second.rank, found->second.port}));
        if (!found->second.done) {
            return std::optional<std::size_t>();
        }
        const std::size_t bytes = found->second.bytes;
        under_way_.erase(found);
        return std::optional(bytes);
    }
    Result<bool> cancel(Ticket ticket) override {
        RUEDA_RETURN_IF_FAILED(check_open());
        const auto found = under_way_.find(ticket);
        RUEDA_ASSERT(found != under_way_.end());
        std::erase(waiting_[{found->second.rank, found->second.port}], ticket);
        under_way_.erase(found);
        return true;
    }
    Result<std::optional<Arrival>> probe() override {
        RUEDA_RETURN_IF_FAILED(check_open());
        return network_->find(rank_, Channel::messages);
    }
    void abandon() override { abandoned_ = true; }
    void cut(int rank) { network_->cut(rank); }

private:
    using Peer = std::pair<int, Port>;
    struct UnderWay {
        int rank;
        Port port;
        std::span<std::byte> room;
        std::size_t bytes;
        bool done;
    };

    /// Every call of the transport begins with this function.
    [[nodiscard]] Status check_open() const {
        sigset_t blocked;
        if (pthread_sigmask(SIG_BLOCK, nullptr, &blocked) != 0 || sigismember(&blocked, SIGPIPE) == 0) {
            calls_with_sigpipe.fetch_add(1, std::memory_order_relaxed);
        }
        return abandoned_ ? failure(ErrorCode::aborted, "the transport of rank {} was abandoned", rank_) : Status();
    }

    /// Gives arrived messages to the receives, in the order in which the receives were started.
    Status deliver(const Peer& peer) {
        std::deque<Ticket>& tickets = waiting_[peer];
        while (!tickets.empty()) {
            const std::optional<Bytes> message = network_->take(peer.first, rank_, peer.second);
            if (!message) {
                return {};
            }
            UnderWay& receive = under_way_.at(tickets.front());
            if (message->size() > receive.room.size()) {
                return failure(ErrorCode::aborted, "rank {} sent {} bytes where rank {} has room for {}", peer.first,
                               message->size(), rank_, receive.room.size());
            }
            std::copy(message->begin(), message->end(), receive.room.begin());
            receive.bytes = message->size();
            receive.done = true;
            tickets.pop_front();
        }
        return {};
    }

    std::shared_ptr<Network> network_;
    int rank_;
    Ticket next_ = 1;
    std::unordered_map<Ticket, UnderWay> under_way_;
    std::map<Peer, std::deque<Ticket>> waiting_;
    bool abandoned_ = false;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_thread_transports(int size) {
    const auto network = std::make_shared<Network>(size);
    std::vector<std::unique_ptr<Transport>> transports;
    for (int rank = 0; rank < size; ++rank) {
        transports.push_back(std::make_unique<ThreadTransport>(network, rank));
    }
    return transports;
}

std::uint64_t calls_without_blocked_sigpipe() { return calls_with_sigpipe.load(std::memory_order_relaxed); }

void cut_thread_transport(Transport& transport, int rank) { dynamic_cast<ThreadTransport&>(transport).cut(rank); }

}  // namespace rueda::collectives
