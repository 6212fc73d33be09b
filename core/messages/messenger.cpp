// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/messages/messenger.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/system/clock.hpp"
#include "core/messages/host_link.hpp"

namespace rueda::core {

Messenger::Messenger(const collectives::LocalGroup& group, std::shared_ptr<collectives::Arena> arena,
                     collectives::Transport* transport, std::atomic<std::uint32_t>& pending, base::Logger logger)
    : group_(group),
      arena_(std::move(arena)),
      region_(arena_->message_region()),
      door_(region_.door(arena_->rank())),
      transport_(transport),
      pending_(pending),
      logger_(std::move(logger)),
      recorder_(arena_->recorder(arena_->rank())) {}

Messenger::~Messenger() = default;

// ---- by any thread --------------------------------------------------------------------------------------------------

Status Messenger::submit(MessageRequest request, Completion& completion) {
    MessageOperation* operation = nullptr;
    const std::lock_guard lock(submit_mutex_);
    if (refuses_) {
        return {refuses_->code(), fmt::format("{}: {}", request.describe(), refuses_->message())};
    }
    if (submitted_.size() == submitted_.capacity()) {
        // reserve() may throw, so it is called before the operation becomes pending
        submitted_.reserve(2 * submitted_.size() + 1);
    }
    {
        const std::lock_guard listing(operations_mutex_);
        operation = &list(std::move(request), completion);
        operation->recorded = record(operation->request);
        completion.message_record = operation->recorded;
    }
    pending_.fetch_add(1, std::memory_order_seq_cst);
    submitted_.push_back(operation);
    // The store is seq_cst. It pairs with begin_submitted(), and with the check of `has_submitted_` by a thread that is
    // about to sleep.
    has_submitted_.store(true, std::memory_order_seq_cst);
    return {};
}

/// The caller holds operations_mutex_.
MessageOperation& Messenger::list(MessageRequest&& request, Completion& completion) {
    operations_.push_back({std::move(request),
                           &completion,
                           base::monotonic_ns(),
                           ++calls_,
                           base::RecorderWriter::kNone,
                           false,
                           {},
                           -1,
                           -1,
                           {}});
    operations_.back().place = std::prev(operations_.end());
    return operations_.back();
}

/// Writes a message to the flight recorder. Returns the number of its record.
std::uint64_t Messenger::record(const MessageRequest& request) const {
    return recorder_.announce_message({.sends = request.sends,
                                       .dtype = static_cast<std::uint8_t>(request.dtype),
                                       .is_blocking = request.is_blocking,
                                       .set_id = request.set->id,
                                       .end = {request.peer, request.tag},
                                       .bytes = request.bytes});
}

bool Messenger::probe_is_due() const {
    return base::coarse_monotonic_ns() >= next_probe_ns_.load(std::memory_order_relaxed);
}

bool Messenger::has_to_poll() const {
    return polls_devices_.load(std::memory_order_relaxed) ||
           (transport_ != nullptr && (polls_.load(std::memory_order_relaxed) ||
                                      base::coarse_monotonic_ns() < polls_until_ns_.load(std::memory_order_relaxed)));
}

void Messenger::for_each_pending(const std::function<void(const MessageOperation&)>& look) const {
    const std::lock_guard lock(operations_mutex_);
    for (const MessageOperation& operation : operations_) {
        look(operation);
    }
}

// ---- a step ---------------------------------------------------------------------------------------------------------

Result<Messenger::Step> Messenger::step(bool somebody_waits, bool asks_others) {
    Step step;
    step.moved = begin_submitted();
    RUEDA_RETURN_IF_FAILED(step_copies(step.moved));
    if (asks_others && transport_ != nullptr) {
        RUEDA_RETURN_IF_FAILED(hear_network(step.moved));
    }
    RUEDA_RETURN_IF_FAILED(hear_knocks());
    RUEDA_RETURN_IF_FAILED(hear_departures());
    for (std::size_t i = 0; i < busy_.size(); ++i) {  // the list may grow while the loop runs
        RUEDA_RETURN_IF_FAILED(receive_from(*busy_[i], step.moved));
        step.moved = read_resident(*busy_[i]) || step.moved;
    }
    if (somebody_waits && matching_.has_untold()) {
        tell_senders_to_go_on();
    }
    std::vector<MessagePeer*> busy;
    busy.swap(busy_);
    for (MessagePeer* peer : busy) {
        peer->is_busy = false;
        RUEDA_RETURN_IF_FAILED(send_to(*peer, step.moved));
        if (peer->has_unread || !peer->readings.empty() || (peer->is_leaving && !peer->is_gone)) {
            make_busy(*peer);
        }
    }
    say_gone_when_all_is_said();
    const bool copies = !held_.empty() || !copies_to_device_.empty();
    polls_devices_.store(copies, std::memory_order_relaxed);
    step.has_to_poll = remote_waits_ > 0 || copies;
    for (const auto& [rank, peer] : peers_) {
        const bool is_remote = peer->network != nullptr;
        step.has_to_poll = step.has_to_poll || (is_remote && (peer->has_output() || peer->link->has_to_poll()));
        step.is_transferring = step.is_transferring || peer->is_transferring();
    }
    polls_.store(step.has_to_poll, std::memory_order_relaxed);
    has_more_.store(!busy_.empty(), std::memory_order_relaxed);
    // If a message arrived before its receive was called, this rank keeps the message. It tells the sender that the
    // message is kept, but only while one of this rank's own callers is blocked. `active_` stays true until all such
    // senders have been told.
    active_.store(oldest() != nullptr || step.has_to_poll || !busy_.empty() || matching_.has_untold() ||
                      (has_shut_down_ && !has_said_gone_),
                  std::memory_order_relaxed);
    return step;
}

Result<MessagePeer*> Messenger::peer_of(int rank) {
    const auto found = peers_.find(rank);
    if (found != peers_.end()) {
        return found->second.get();
    }
    auto peer = std::make_unique<MessagePeer>();
    peer->rank = rank;
    if (is_local(rank)) {
        const auto member = std::lower_bound(group_.members.begin(), group_.members.end(), rank);
        auto link = HostLink::open(arena_, static_cast<std::uint32_t>(member - group_.members.begin()));
        RUEDA_RETURN_IF_FAILED(link.status());
        peer->host = link.value().get();
        peer->link = std::move(link).value();
    } else {
        auto link = std::make_unique<NetworkLink>(*transport_, rank);
        peer->network = link.get();
        peer->link = std::move(link);
        remote_.push_back(peer.get());
    }
    return peers_.emplace(rank, std::move(peer)).first->second.get();
}

void Messenger::make_busy(MessagePeer& peer) {
    if (!std::exchange(peer.is_busy, true)) {
        busy_.push_back(&peer);
    }
}

void Messenger::reply(MessagePeer& peer, FrameKind kind, std::uint64_t id) {
    Frame frame;
    frame.kind = static_cast<std::uint8_t>(kind);
    frame.id = id;
    peer.replies.push_back(frame);
    make_busy(peer);
}

// ---- what this rank's callers have requested ------------------------------------------------------------------------

bool Messenger::begin_submitted() {
    if (!has_submitted_.load(std::memory_order_seq_cst)) {
        return false;
    }
    std::vector<MessageOperation*> submitted;
    {
        const std::lock_guard lock(submit_mutex_);
        has_submitted_.store(false, std::memory_order_seq_cst);
        submitted.swap(submitted_);
    }
    for (MessageOperation* operation : submitted) {
        begin_in_order(*operation);
    }
    return true;
}

void Messenger::begin(MessageOperation& operation) {
    const MessageRequest& request = operation.request;
    operation.is_remote = has_part_elsewhere(request);
    remote_waits_ += operation.is_remote ? 1 : 0;
    if (forgotten_.contains(request.set->id)) {
        complete(operation, failure(ErrorCode::invalid_argument, "{} has been removed", request.set->describe()));
    } else if (request.sends) {
        begin_send(operation);
    } else {
        begin_receive(operation);
    }
}

bool Messenger::has_part_elsewhere(const MessageRequest& request) const {
    if (!request.is_from_anybody()) {
        return !is_local(request.peer);
    }
    return std::any_of(request.set->ranks.begin(), request.set->ranks.end(),
                       [this](int rank) { return !is_local(rank); });
}

void Messenger::begin_send(MessageOperation& operation) {
    const MessageRequest& request = operation.request;
    const Result<MessagePeer*> found = peer_of(request.peer);
    if (!found.is_ok()) {
        complete(operation, found.status());
        return;
    }
    MessagePeer& peer = *found.value();
    if (peer.is_gone) {
        complete(operation, gone_status(request));
        return;
    }
    const std::uint64_t id = ++peer.last_id;
    SendingMessage& message = peer.sending[id];
    message.belong_to(operation);
    peer.unsent.push_back(id);
    make_busy(peer);
}

void Messenger::begin_receive(MessageOperation& operation) {
    const MessageRequest& request = operation.request;
    if (std::optional<MessageArrival> arrival = matching_.arrival_for(request)) {
        take(operation, std::move(*arrival));
        return;
    }
    if (!request.is_from_anybody()) {
        const Result<MessagePeer*> peer = peer_of(request.peer);
        if (!peer.is_ok() || peer.value()->is_gone) {
            complete(operation, peer.is_ok() ? gone_status(request) : peer.status());
            return;
        }
    } else if (all_others_are_gone(request)) {
        complete(operation, gone_status(request));
        return;
    }
    matching_.post(operation);
}

/// Begins to give the receive a message that arrived earlier and that matches the receive.
void Messenger::take(MessageOperation& receive, MessageArrival arrival) {
    give(receive, arrival.sender, arrival, arrival.payload.get());
}

/// Begins to give a message to a receive. `payload` points to the message's bytes if the arrival contains the whole
/// message.
void Messenger::give(MessageOperation& receive, int sender, const MessageArrival& arrival, const std::byte* payload) {
    MessagePeer& peer = known(sender);
    const MessageRequest& request = receive.request;
    if (arrival.dtype != request.dtype || arrival.bytes != request.bytes) {
        reply(peer, FrameKind::refused, arrival.id);
        peer.replies.back().dtype = static_cast<std::uint8_t>(request.dtype);
        peer.replies.back().bytes = request.bytes;
        const MessageMismatch mismatch{sender,        group_.rank,   arrival.tag,  arrival.dtype,
                                       arrival.bytes, request.dtype, request.bytes};
        complete(receive, mismatch.status(*request.set), sender);
        return;
    }
    if (!arrival.is_whole) {
        ask_for(receive, peer, arrival);
        return;
    }
    if (arrival.bytes > 0) {
        std::memcpy(request.memory, payload, arrival.bytes);
    }
    reply(peer, FrameKind::taken, arrival.id);
    complete(receive, {}, sender);
}

void Messenger::ask_for(MessageOperation& receive, MessagePeer& sender, const MessageArrival& arrival) {
    ReceivingMessage& message = sender.receiving[arrival.id];
    message.operation = &receive;
    message.bytes = arrival.bytes;
    message.is_lent = arrival.is_resident;
    recorder_.start(receive.recorded, base::ticks_now());
    message.source = arrival.is_resident ? sender.link->resident(arrival.place, arrival.bytes) : nullptr;
    if (message.source != nullptr) {
        sender.readings.push_back(arrival.id);
        make_busy(sender);
    } else {
        reply(sender, FrameKind::asked, arrival.id);
    }
}

// ---- ends -----------------------------------------------------------------------------------------------------------

/// Ends an operation. Exception: a receive into device memory ends later, when its message was copied to the device.
void Messenger::complete(MessageOperation& operation, const Status& status, int sender) {
    DeviceCopy* const copy = operation.request.device.get();
    if (copy != nullptr && status.is_ok() && !operation.request.sends) {
        operation.sender = sender;
        copies_to_device_.push_back(&operation);
        note_gpu(operation, copy->device());
        // The receive does not need the peer any more: if the peer shuts down before the copy is done, the receive must
        // still succeed.
        remote_waits_ -= std::exchange(operation.is_remote, false) ? 1U : 0U;
        return;
    }
    end(operation, status, sender);
}

void Messenger::end(MessageOperation& operation, const Status& status, int sender) {
    remote_waits_ -= operation.is_remote ? 1 : 0;
    Completion& completion = *operation.completion;
    if (completion.is_on_device() && !completion.is_launched()) {
        completion.fail(status);  // fail() is called before launched(), so that wait_on_stream() finds the failure
        completion.launched(nullptr);
    }
    recorder_.end_message(operation.recorded, base::ticks_now(), status.code(), sender);
    {
        const std::lock_guard lock(operations_mutex_);
        operations_.erase(operation.place);
    }
    completion.sender = sender;
    pending_.fetch_sub(1, std::memory_order_seq_cst);
    completion.complete_one(status);
}

/// Fails the operations of one process set, or of all sets.
void Messenger::fail_operations(std::optional<std::int32_t> set, const Status& reason) {
    const auto is_meant = [&set](const MessageRequest& request) { return !set || request.set->id == *set; };
    std::vector<MessageOperation*> ended = matching_.take_receives(is_meant);
    matching_.drop_arrivals([&set](const MessageArrival& arrival) { return !set || arrival.set == *set; });
    for (const auto& [rank, peer] : peers_) {
        std::vector<std::uint64_t> lent;
        peer->take_out([&set](std::int32_t of) { return !set || of == *set; }, ended, &lent);
        for (const std::uint64_t id : lent) {
            withdraw(*peer, id, reason);
        }
    }
    for (MessageOperation* operation : ended) {
        complete(*operation, about(operation->request, reason));
    }
    end_copies(set, reason);
}

/// Begins to end a send of resident memory: tells the receiver that the message is withdrawn. The caller gets its
/// memory back when the receiver has answered that it will not read the memory any more. The answer also wakes the
/// thread that waits for the send. If the receiver dies, the end of the job wakes this thread.
void Messenger::withdraw(MessagePeer& peer, std::uint64_t id, const Status& reason) {
    MessageOperation& operation = *peer.sending.at(id).operation;
    if (operation.ends_with.is_ok()) {
        operation.ends_with = about(operation.request, reason);
        reply(peer, FrameKind::withdrawn, id);
    }
}

/// Drops messages of the set that other ranks of this host have sent to this rank and that lie in the senders' resident
/// memory. Notifies the senders, whose sends then end.
void Messenger::drop_readings_and_offers_of(std::int32_t set) {
    for (const auto& [rank, peer] : peers_) {
        for (const std::uint64_t id : peer->readings_of(set)) {
            reply(*peer, FrameKind::dropped, id);
        }
    }
    matching_.drop_arrivals([&](const MessageArrival& kept) {
        if (kept.set == set && kept.is_resident) {
            reply(known(kept.sender), FrameKind::dropped, kept.id);
        }
        return kept.set == set;
    });
}

/// Returns the error, followed by a description of the message. If there is no memory for the description, returns the
/// error alone.
Status Messenger::about(const MessageRequest& request, const Status& reason) noexcept {
    try {
        return {reason.code(), fmt::format("{}: {}", request.describe(), reason.message())};
    } catch (const std::bad_alloc&) {
        return reason;
    }
}

void Messenger::shut_down() {
    const Status reason(ErrorCode::not_initialized, "rueda::shutdown() has been called on this rank");
    {
        const std::lock_guard lock(submit_mutex_);
        refuses_ = reason;
    }
    static_cast<void>(begin_submitted());
    has_shut_down_ = true;
    fail_operations(std::nullopt, reason);
    for (const auto& [rank, peer] : peers_) {
        if (peer->network != nullptr) {
            reply(*peer, FrameKind::gone, 0);
        }
    }
    active_.store(true, std::memory_order_relaxed);
}

/// Tells the ranks of this host that this rank has shut down. For this, this rank sets a flag in its door (the flags in
/// the arena by which the ranks of a host notify each other). It sets the flag only after all frames of this rank are
/// in the rings.
void Messenger::say_gone_when_all_is_said() {
    if (!has_shut_down_ || has_said_gone_) {
        return;
    }
    for (const auto& [rank, peer] : peers_) {
        if (peer->network == nullptr && !peer->replies.empty()) {
            return;
        }
    }
    has_said_gone_ = true;
    // The store to `gone` and the increment of the departures are seq_cst, in this order. So a rank that sees the new
    // count of departures also sees the flag `gone`. They pair with hear_departures().
    door_.gone.store(1, std::memory_order_seq_cst);
    region_.departures().fetch_add(1, std::memory_order_seq_cst);
    for (std::uint32_t member = 0; member < group_.members.size(); ++member) {
        auto& attention = arena_->blocks().of(member).attention;
        const base::AttentionState state = attention.state();
        if (member != arena_->rank() && state != base::AttentionState::awake) {
            attention.ring(state);
        }
    }
}

void Messenger::forget(std::int32_t set, const Status& reason) {
    static_cast<void>(begin_submitted());
    forgotten_.insert(set);
    drop_readings_and_offers_of(set);
    fail_operations(set, reason);
    active_.store(true, std::memory_order_relaxed);  // step() must be called, because the peer may have frames to send
}

MessageOperation* Messenger::oldest() {
    const std::lock_guard lock(operations_mutex_);
    return operations_.empty() ? nullptr : &operations_.front();
}

void Messenger::fail_all(const Status& reason) noexcept {
    {
        const std::lock_guard lock(submit_mutex_);
        refuses_ = reason;
        submitted_.clear();
        has_submitted_.store(false, std::memory_order_seq_cst);
    }
    matching_.clear();
    settle_copies(std::nullopt);
    held_.clear();
    copies_to_device_.clear();
    busy_.clear();
    for (const auto& [rank, peer] : peers_) {
        peer->is_busy = false;
        peer->clear();
        hold_job(*peer, false);
    }
    while (MessageOperation* operation = oldest()) {
        complete(*operation, about(operation->request, reason));
    }
    remote_waits_ = 0;
    has_said_gone_ = true;
    polls_.store(false, std::memory_order_relaxed);
    polls_devices_.store(false, std::memory_order_relaxed);
    polls_until_ns_.store(0, std::memory_order_relaxed);
    has_more_.store(false, std::memory_order_relaxed);
    active_.store(false, std::memory_order_relaxed);
}

}  // namespace rueda::core
