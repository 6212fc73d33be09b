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

#include "base/recorder/recorder_writer.hpp"
#include "base/system/logging.hpp"
#include "collectives/host/arena/arena.hpp"
#include "collectives/local_group.hpp"
#include "collectives/transport.hpp"
#include "core/messages/matching.hpp"
#include "core/messages/peer.hpp"

namespace rueda::core {

/// The sends and receives of one rank: with all other ranks of its job, and with itself
/// (docs/design/0010-send-receive.md).
///
/// Threads: any thread may call submit(), needs_turn(), has_work(), has_to_poll() and for_each_pending(). Only the
/// thread that drives progress may call the other functions. Lock order: the progress lock, then submit_mutex_, then
/// operations_mutex_. A thread that holds submit_mutex_ or operations_mutex_ takes no lock that comes earlier in this
/// order.
class Messenger {
public:
    /// `transport` may be null if all ranks are on one host. For `pending`, see ProcessSet. All arguments must outlive
    /// this object.
    Messenger(const collectives::LocalGroup& group, std::shared_ptr<collectives::Arena> arena,
              collectives::Transport* transport, std::atomic<std::uint32_t>& pending, base::Logger logger);
    ~Messenger();
    Messenger(const Messenger&) = delete;
    Messenger& operator=(const Messenger&) = delete;

    /// Hands a checked request to the next step(). Fails only if no new operation can be started any more. Otherwise
    /// the result of the operation arrives through `completion`, which must stay valid until then.
    Status submit(MessageRequest request, Completion& completion);

    enum class AtOnce : std::uint8_t {
        no,     ///< nothing was done; the caller must call submit()
        begun,  ///< the operation is pending, as after submit()
        done,   ///< the operation has succeeded; only the sender was stored in the Completion
    };
    /// Tries to exchange a small message with another rank of this host at once, without a pending operation. Such a
    /// message takes a fraction of the time of submit() and step(). Checks at most `looks` times whether the other rank
    /// has done its part. Only for a caller that waits for the operation, and only for the thread that drives progress.
    /// If this function fails, the job ends, as with step().
    [[nodiscard]] Result<AtOnce> run_at_once(MessageRequest& request, Completion& completion, int looks);

    /// Whether step() must be called, because there may be work for it, or because only step() can find out whether
    /// there is any.
    [[nodiscard]] bool needs_turn() const {
        return active_.load(std::memory_order_relaxed) || has_submitted_.load(std::memory_order_seq_cst) ||
               door_.step.anybody() || (transport_ != nullptr && probe_is_due());
    }
    /// Whether a step would find work now.
    [[nodiscard]] bool has_work() const {
        return has_more_.load(std::memory_order_relaxed) || has_submitted_.load(std::memory_order_seq_cst) ||
               door_.step.anybody();
    }
    /// Whether this rank must poll, because nothing notifies it of messages from other hosts.
    [[nodiscard]] bool has_to_poll() const;

    struct Step {
        bool moved = false;
        bool is_transferring = false;  ///< whether a message is being transferred; its next bytes will then arrive soon
        bool has_to_poll = false;
    };
    /// Does the work that is possible now, but transfers at most a few chunks. `somebody_waits` means that a caller of
    /// this rank is blocked, or polls repeatedly. Such a caller may depend on what another rank does next, and that
    /// rank may be waiting because this rank keeps a message of it. Therefore the senders of kept messages are told
    /// that their messages are kept, so that they need not wait. A failure ends the job. This function may throw
    /// std::bad_alloc, which also ends the job.
    [[nodiscard]] Result<Step> step(bool somebody_waits, bool asks_others);

    // shut_down() and forget() do not end a send of resident memory at once: it stays pending while its receiver may
    // still be reading this memory. The send ends when the receiver answers that it does not read the memory any more
    // ("taken", "dropped"), or when the receiver has shut down. fail_all() ends the send in any case.

    /// Ends pending operations, because this rank has shut down. From then on this object refuses new operations, and
    /// messages that arrive from other ranks.
    void shut_down();
    /// Ends the operations that are pending in a process set that is being removed.
    void forget(std::int32_t set, const Status& reason);
    /// Ends everything that is pending, with the error `reason`. From then on submit() fails with the same error. Call
    /// this after an abort, or at the end of the job, when no rank reads this rank's memory any more.
    void fail_all(const Status& reason) noexcept;

    /// Calls `look` with each operation that is pending here, oldest first. Any thread may call it.
    void for_each_pending(const std::function<void(const MessageOperation&)>& look) const;
    /// Writes into the flight recorder that the program waits for a send or a receive. Any thread.
    void note_awaited(const Completion& completion) const { recorder_.note_awaited(completion.message_record); }

private:
    /// The limits of what one step does for one peer. Up to these limits, the work takes some tens of µs.
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

    [[nodiscard]] std::uint64_t record(const MessageRequest& request) const;
    MessageOperation& list(MessageRequest&& request, Completion& completion);

    // at_once.cpp:
    [[nodiscard]] MessagePeer* peer_at_once(const MessageRequest& request) const;
    Result<AtOnce> send_at_once(MessagePeer& peer, MessageRequest& request, Completion& completion, int looks);
    Result<AtOnce> receive_at_once(MessagePeer& peer, MessageRequest& request, Completion& completion, int looks);
    MessageOperation& begin_recorded(MessageRequest&& request, Completion& completion, std::uint64_t recorded);
    bool begin_submitted();
    void begin(MessageOperation& operation);

    // The following functions are in copying.cpp, and are for tensors in device memory.
    void begin_in_order(MessageOperation& operation);
    [[nodiscard]] const MessageOperation* held_before(const MessageRequest& request) const;
    void note_gpu(MessageOperation& operation, int gpu);
    Status step_copies(bool& moved);
    Status begin_held(bool& moved);
    Status step_copies_to_device(bool& moved);
    void settle_copies(std::optional<std::int32_t> set) noexcept;
    void end_copies(std::optional<std::int32_t> set, const Status& reason);

    [[nodiscard]] bool has_part_elsewhere(const MessageRequest& request) const;
    void begin_send(MessageOperation& operation);
    void begin_receive(MessageOperation& operation);
    void take(MessageOperation& receive, MessageArrival arrival);
    void give(MessageOperation& receive, int sender, const MessageArrival& arrival, const std::byte* payload);
    void ask_for(MessageOperation& receive, MessagePeer& sender, const MessageArrival& arrival);

    // receiving.cpp:
    Status hear_network(bool& moved);
    Status hear_knocks();
    Status hear_departures();
    void ask_for_departures();
    void ask_for_departure_of(int rank);
    Status hear_taken(MessagePeer& peer, bool& moved);
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

    // sending.cpp:
    Status send_to(MessagePeer& peer, bool& moved);
    Result<bool> send_replies(MessagePeer& peer, bool& moved);
    Result<bool> send_messages(MessagePeer& peer, bool& moved);
    Result<bool> send_parts(MessagePeer& peer, bool& moved);
    Result<bool> send_first(MessagePeer& peer, std::uint64_t id, SendingMessage& message);
    void hold_job(MessagePeer& peer, bool holds);
    void tell_senders_to_go_on();

    void say_gone_when_all_is_said();
    void complete(MessageOperation& operation, const Status& status, int sender = -1);
    void end(MessageOperation& operation, const Status& status, int sender);
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
    base::RecorderWriter recorder_;  // writes the flight recorder of this rank

    // The following fields are used only by the thread that drives progress.
    std::unordered_map<int, std::unique_ptr<MessagePeer>> peers_;  // by rank
    std::vector<MessagePeer*> busy_;
    std::vector<MessagePeer*> remote_;  // peers on other hosts
    Matching matching_;
    /// Sends that have not begun, in the order of the calls. Some wait for the copy of their tensor from a device to
    /// the host. Others have the same peer, tag and process set as an earlier send in this list, and must not overtake
    /// it.
    std::vector<MessageOperation*> held_;
    std::vector<MessageOperation*> copies_to_device_;  // receives whose message has arrived
    std::unordered_set<std::int32_t> forgotten_;       // process sets that were removed
    std::uint32_t departures_ = 0;
    std::uint32_t remote_waits_ = 0;  // number of operations whose other rank is on another host
    std::int64_t next_question_ns_ = 0;
    bool has_shut_down_ = false;
    bool has_said_gone_ = false;

    // Hints for other threads, written by the thread that drives progress. Accesses are relaxed, because a thread
    // checks each hint again before it sleeps.
    std::atomic<bool> active_{false};
    std::atomic<bool> has_more_{false};
    std::atomic<bool> polls_{false};
    std::atomic<bool> polls_devices_{false};
    std::atomic<std::int64_t> polls_until_ns_{0};
    std::atomic<std::int64_t> next_probe_ns_{0};

    std::mutex submit_mutex_;
    std::vector<MessageOperation*> submitted_;
    std::optional<Status> refuses_;
    std::atomic<bool> has_submitted_{false};  // accesses are seq_cst: submit() first stores this flag, and then looks
                                              // for sleeping threads

    mutable std::mutex operations_mutex_;
    std::list<MessageOperation> operations_;
    std::uint64_t calls_ = 0;
};

}  // namespace rueda::core
