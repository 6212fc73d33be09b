// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/bulk_transport.hpp"
#include "collectives/ucx/ucx_worker.hpp"

namespace rueda::collectives {

/// A transport over UCX. It connects two ranks when one of them first sends to the other or receives from it.
///
/// If the process of a peer ends, messages that arrived before can still be received. Only after kLossPatience does
/// test() report the loss of the peer. In this time, the ranks of the peer's host or the launcher can report why the
/// peer ended.
///
/// Threads: as Transport says.
class UcxTransport final : public BulkTransport {
public:
    static constexpr std::chrono::milliseconds kLossPatience{1000};

    /// `first_generation` is for tests: the initial value of `generation` in all elements of the list of messages.
    UcxTransport(std::unique_ptr<UcxWorker> worker, int rank, int size, std::uint32_t first_generation = 0);
    ~UcxTransport() override;
    UcxTransport(const UcxTransport&) = delete;
    UcxTransport& operator=(const UcxTransport&) = delete;

    [[nodiscard]] std::string description() const override { return "ucx " + UcxWorker::version(); }
    [[nodiscard]] Bytes address() const override { return worker_->address(); }
    Status connect(std::vector<Bytes> addresses) override;
    Status barrier(const Wait& wait) override;
    Status finish(const Wait& wait) override;
    void close() noexcept override;

    Result<Ticket> send(int rank, Port port, std::span<const std::byte> bytes) override;
    Result<Ticket> receive(int rank, Port port, std::span<std::byte> room) override;
    Result<std::optional<std::size_t>> test(Ticket ticket) override;
    Result<bool> cancel(Ticket ticket) override;
    Result<std::optional<Arrival>> probe() override;
    Status progress() override;
    void abandon() override { fail(abandoned_); }

private:
    using Clock = std::chrono::steady_clock;

    /// An element of `places_`: a message that this rank sends or receives, or a free place for one.
    struct UnderWay {
        UcxRequest request;
        std::size_t bytes = 0;  ///< the length of a message to send, or the size of the memory for a message to receive
        int rank = 0;
        /// How often this element of the list was used (31 bits). Tickets (ids of messages) that refer to the same
        /// element differ in this count.
        std::uint32_t generation = 0;
        bool is_send = false;
        bool is_free = true;
        bool was_started = false;  ///< Whether the message was given to UCX. A message to a peer that was lost already
                                   ///< is not given to UCX.
    };
    /// A message for which no receive was started. finish() receives it, so that its sender can finish.
    struct Stray {
        std::unique_ptr<std::byte[]> room;
        UcxRequest request;
    };
    /// What this rank exchanges in barrier() and finish(). The messages have one byte.
    struct OwnMessages {
        std::array<std::byte, 1> sent{};
        std::array<std::byte, 1> received{};
        UcxRequest sending;
        UcxRequest receiving;
        UcxRequest flushing;
    };
    /// A wait for other ranks, which ends at its deadline.
    class Waiting;

    [[nodiscard]] Result<std::uint32_t> take_place(int rank, std::size_t bytes, bool is_send);
    [[nodiscard]] Ticket ticket_of(std::uint32_t place) const;
    [[nodiscard]] std::uint32_t place_of(Ticket ticket) const;
    void release(std::uint32_t place);
    [[nodiscard]] Result<std::optional<std::size_t>> end_of(std::uint32_t place);
    [[nodiscard]] Status check_received(const UnderWay& receive) const;
    [[nodiscard]] Status check_arrival(const UcxArrival& arrival) const;
    [[nodiscard]] Status check_loss(int rank);
    [[nodiscard]] Status lost(int rank) const;
    [[nodiscard]] Status pass_barrier(Waiting& waiting);
    [[nodiscard]] Status exchange_with(int to, int from, Waiting& waiting);
    [[nodiscard]] Status end_messages(Waiting& waiting);
    void take_strays();
    [[nodiscard]] bool has_next_stray() noexcept;
    [[nodiscard]] bool have_sends_ended() const;
    [[nodiscard]] bool release_requests();
    void cancel_receives();
    void fail(const Status& status);
    Status sticky(Status status);

    std::unique_ptr<UcxWorker> worker_;
    const int rank_;
    const int size_;
    const std::uint32_t first_generation_;
    std::deque<UnderWay> places_;  ///< The messages, in a deque, because UCX keeps pointers to the elements.
    std::vector<std::uint32_t> free_;
    std::list<Stray> strays_;
    std::list<Stray> next_stray_;  ///< at most one element, which is prepared for the next stray message
    OwnMessages own_;
    bool takes_strays_ = false;
    bool is_closed_ = false;
    Status failed_;
    Status abandoned_;  // The failure for abandon(). It is created in advance, because later no memory may be left.
};

/// Returns a transport for rank `rank` of `size` ranks, with a worker of its own.
[[nodiscard]] Result<std::unique_ptr<BulkTransport>> make_ucx_transport(int rank, int size);

}  // namespace rueda::collectives
