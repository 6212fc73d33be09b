// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/logging.hpp"
#include "collectives/host/arena.hpp"
#include "collectives/local_group.hpp"
#include "collectives/transport.hpp"
#include "core/messages/matching.hpp"
#include "core/messages/peer.hpp"

namespace rueda::core {

/// The sends and receives of a rank, with all other ranks of its job and with itself
/// (docs/design/0010-send-receive.md).
///
/// Threads: submit(), needs_turn(), has_work(), has_to_poll() and for_each_pending() by any; the rest by whoever holds
/// the rank's crank. Lock order: crank, submissions, operations; nothing else is locked under the last two.
class Messenger {
public:
    /// `transport` may be null, on one host. `pending`: see ProcessSet. All outlive this.
    Messenger(const collectives::LocalGroup& group, std::shared_ptr<collectives::Arena> arena,
              collectives::Transport* transport, std::atomic<std::uint32_t>& pending, base::Logger logger);
    ~Messenger();
    Messenger(const Messenger&) = delete;
    Messenger& operator=(const Messenger&) = delete;

    /// Hands an operation to the next step(); everything but why nothing can be started any more comes through
    /// `completion`, which outlives that. The request has been checked.
    Status submit(MessageRequest request, Completion& completion);

    /// A step may find something to do, or has to look for it.
    [[nodiscard]] bool needs_turn() const {
        return active_.load(std::memory_order_relaxed) || has_submitted_.load(std::memory_order_seq_cst) ||
               door_.step.anybody() || (transport_ != nullptr && probe_is_due());
    }
    /// A step would do something now.
    [[nodiscard]] bool has_work() const {
        return has_more_.load(std::memory_order_relaxed) || has_submitted_.load(std::memory_order_seq_cst) ||
               door_.step.anybody();
    }
    /// Nobody tells of what comes from other hosts.
    [[nodiscard]] bool has_to_poll() const;

    struct Step {
        bool moved = false;
        bool is_transferring = false;  ///< the next bytes are a moment away
        bool has_to_poll = false;
    };
    /// Does what can be done now, for about some chunks. `somebody_waits`: a caller of this rank is blocked, or looks
    /// again and again; he may wait for what the sender of a message does next, and so that one is let go on.
    /// A failure ends the job. Throws std::bad_alloc: so does that.
    [[nodiscard]] Result<Step> step(bool somebody_waits, bool asks_others);

    // Either leaves a send pending whose receiver may be reading its resident memory, until that one says that it does
    // not: "taken", "dropped", or that it has shut down. fail_all() ends it at the latest.

    /// This rank has shut down: ends what is pending, and refuses what comes.
    void shut_down();
    /// Ends what is pending in a process set that goes.
    void forget(std::int32_t set, const Status& reason);
    /// After an abort or at the end, when no rank reads this one's memory any more: ends everything pending; submit()
    /// refuses with it from now on.
    void fail_all(const Status& reason) noexcept;

    /// What is pending here, oldest first; any thread.
    void for_each_pending(const std::function<void(const MessageOperation&)>& look) const;

private:
    /// Of one step and peer: some tens of µs.
    static constexpr int kFramesPerStep = 64;
    static constexpr std::uint64_t kBytesPerStep = 256 * 1024;

    [[nodiscard]] bool probe_is_due() const;
    [[nodiscard]] bool is_local(int rank) const {
        return group_.host_of[static_cast<std::size_t>(rank)] == group_.host_index;
    }
    [[nodiscard]] Result<MessagePeer*> peer_of(int rank);
    [[nodiscard]] MessagePeer& known(int rank) { return *peers_.at(rank); }
    void make_busy(MessagePeer& peer);
    void reply(MessagePeer& peer, FrameKind kind, std::uint64_t id);

    bool begin_submitted();
    void begin(MessageOperation& operation);
    [[nodiscard]] bool has_part_elsewhere(const MessageRequest& request) const;
    void begin_send(MessageOperation& operation);
    void begin_receive(MessageOperation& operation);
    void take(MessageOperation& receive, MessageArrival arrival);
    void give(MessageOperation& receive, int sender, const MessageArrival& arrival, const std::byte* payload);
    void ask_for(MessageOperation& receive, MessagePeer& sender, const MessageArrival& arrival);

    // receiving.cpp
    Status hear_network(bool& moved);
    Status hear_knocks();
    Status hear_departures();
    void ask_for_departures();
    void ask_for_departure_of(int rank);
    Status receive_from(MessagePeer& peer, bool& moved);
    Status handle(MessagePeer& peer, const Frame& frame, std::span<const std::byte> payload);
    Status handle_message(MessagePeer& peer, const Frame& frame, std::span<const std::byte> payload);
    Status handle_part(MessagePeer& peer, const Frame& frame, std::span<const std::byte> payload);
    Status handle_answer(MessagePeer& peer, const Frame& frame);
    Status handle_withdrawal(MessagePeer& peer, const Frame& frame);
    void handle_refusal(MessagePeer& peer, const SendingMessage& message, const Frame& frame);
    void finish_receiving(MessagePeer& peer, std::uint64_t id);
    [[nodiscard]] bool job_has_ended() const;
    bool read_resident(MessagePeer& peer);
    Status handle_gone(MessagePeer& peer);
    [[nodiscard]] bool all_others_are_gone(const MessageRequest& request) const;
    [[nodiscard]] Status gone_status(const MessageRequest& request) const;

    // sending.cpp
    Status send_to(MessagePeer& peer, bool& moved);
    Result<bool> send_replies(MessagePeer& peer, bool& moved);
    Result<bool> send_messages(MessagePeer& peer, bool& moved);
    Result<bool> send_parts(MessagePeer& peer, bool& moved);
    Result<bool> send_first(MessagePeer& peer, std::uint64_t id, SendingMessage& message);
    void hold_job(MessagePeer& peer, bool holds);
    void tell_senders_to_go_on();

    void say_gone_when_all_is_said();
    void complete(MessageOperation& operation, const Status& status, int sender = -1);
    void fail_operations(std::optional<std::int32_t> set, const Status& reason);
    void withdraw(MessagePeer& peer, std::uint64_t id, const Status& reason);
    void drop_readings_and_offers_of(std::int32_t set);
    [[nodiscard]] static Status about(const MessageRequest& request, const Status& reason) noexcept;
    [[nodiscard]] MessageOperation* oldest();

    const collectives::LocalGroup& group_;
    std::shared_ptr<collectives::Arena> arena_;
    collectives::MessageRegion region_;
    collectives::MessageDoor& door_;
    collectives::Transport* transport_;
    std::atomic<std::uint32_t>& pending_;
    base::Logger logger_;

    // Of whoever holds the crank.
    std::unordered_map<int, std::unique_ptr<MessagePeer>> peers_;  // by rank
    std::vector<MessagePeer*> busy_;
    std::vector<MessagePeer*> remote_;  // of other hosts
    Matching matching_;
    std::unordered_set<std::int32_t> forgotten_;  // process sets
    std::uint32_t departures_ = 0;
    std::uint32_t remote_waits_ = 0;  // operations that a rank of another host has a part in
    std::int64_t next_question_ns_ = 0;
    bool has_shut_down_ = false;
    bool has_said_gone_ = false;

    // Written by whoever holds the crank, as hints for others. Relaxed: each is looked at again before a sleep.
    std::atomic<bool> active_{false};
    std::atomic<bool> has_more_{false};
    std::atomic<bool> polls_{false};
    std::atomic<std::int64_t> polls_until_ns_{0};
    std::atomic<std::int64_t> next_probe_ns_{0};

    std::mutex submit_mutex_;
    std::vector<MessageOperation*> submitted_;
    std::optional<Status> refuses_;
    std::atomic<bool> has_submitted_{false};  // seq_cst: submit() looks for sleepers after it

    mutable std::mutex operations_mutex_;
    std::list<MessageOperation> operations_;
    std::uint64_t calls_ = 0;
};

}  // namespace rueda::core
