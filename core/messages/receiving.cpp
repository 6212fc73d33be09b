// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Handles what other ranks send: messages, answers, and the notification that a rank has shut down.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/system/clock.hpp"
#include "core/messages/messenger.hpp"

#if defined(__SANITIZE_THREAD__)
#define RUEDA_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RUEDA_THREAD_SANITIZER 1
#endif
#endif

namespace rueda::core {
namespace {

/// How often this rank checks for messages of other hosts while none of its receives waits for such a message. The
/// checks are necessary, because the sender of such a message may be waiting until this rank answers that it keeps the
/// message.
constexpr std::int64_t kProbeNs = 5'000'000;
/// If a receive has waited this long for a rank of another host, this rank asks the other rank to report its shutdown.
constexpr std::int64_t kQuestionNs = 500'000'000;

MessageArrival arrival_of(int sender, const Frame& frame) {
    MessageArrival arrival;
    arrival.sender = sender;
    arrival.tag = frame.tag;
    arrival.set = frame.set;
    arrival.dtype = static_cast<DType>(frame.dtype);
    arrival.id = frame.id;
    arrival.bytes = frame.bytes;
    arrival.is_whole = static_cast<FrameKind>(frame.kind) == FrameKind::whole;
    arrival.is_resident = (frame.flags & Frame::kResident) != 0;
    arrival.place = frame.place;
    return arrival;
}

}  // namespace

Status Messenger::hear_network(bool& moved) {
    if (remote_waits_ == 0 && !polls_.load(std::memory_order_relaxed) && !probe_is_due()) {
        return {};
    }
    next_probe_ns_.store(base::coarse_monotonic_ns() + kProbeNs, std::memory_order_relaxed);
    if (remote_waits_ > 0) {
        ask_for_departures();
    }
    for (int i = 0; i < kFramesPerStep; ++i) {
        const auto arrival = transport_->probe();
        RUEDA_RETURN_IF_FAILED(arrival.status());
        if (!arrival.value()) {
            break;
        }
        const auto [rank, bytes] = *arrival.value();
        if (rank < 0 || rank >= group_.size || is_local(rank)) {
            return failure(ErrorCode::internal, "a message of another host is said to come from rank {}", rank);
        }
        const Result<MessagePeer*> peer = peer_of(rank);
        RUEDA_RETURN_IF_FAILED(peer.status());
        RUEDA_RETURN_IF_FAILED(peer.value()->network->take(bytes));
        moved = true;
    }
    for (MessagePeer* peer : remote_) {
        if (peer->has_output() || peer->link->has_to_poll()) {
            make_busy(*peer);
        }
    }
    return {};
}

Status Messenger::hear_knocks() {
    if (!door_.step.anybody()) {
        return {};
    }
    const std::uint64_t knocks = door_.step.take();
    for (std::size_t member = 0; member < group_.members.size(); ++member) {
        if ((knocks >> member & 1) != 0) {
            const Result<MessagePeer*> peer = peer_of(group_.members[member]);
            RUEDA_RETURN_IF_FAILED(peer.status());
            make_busy(*peer.value());
        }
    }
    return {};
}

/// Handles the ranks of this host that have shut down since the last call of this function.
Status Messenger::hear_departures() {
    // This load pairs with the stores in say_gone_when_all_is_said(). It is seq_cst, because a rank that is about to
    // sleep first stores that it sleeps, and then reads this count of departures.
    const std::uint32_t departures = region_.departures().load(std::memory_order_seq_cst);
    if (departures == departures_) {
        return {};
    }
    departures_ = departures;
    for (std::size_t member = 0; member < group_.members.size(); ++member) {
        // A rank that has shut down only writes its last frames into the rings. So it ignores the departure of ranks
        // with which it has exchanged nothing.
        if (region_.door(static_cast<std::uint32_t>(member)).gone.load(std::memory_order_seq_cst) != 0 &&
            (!has_shut_down_ || peers_.contains(group_.members[member]))) {
            const Result<MessagePeer*> peer = peer_of(group_.members[member]);
            RUEDA_RETURN_IF_FAILED(peer.status());
            peer.value()->is_leaving = true;
            make_busy(*peer.value());
        }
    }
    return {};
}

/// Asks ranks of other hosts to report their shutdown, because a rank reports it to another host only if it was asked.
void Messenger::ask_for_departures() {
    const std::int64_t now_ns = base::monotonic_ns();
    if (now_ns < next_question_ns_) {
        return;
    }
    next_question_ns_ = now_ns + kQuestionNs;
    std::vector<int> ranks;
    for_each_pending([&](const MessageOperation& operation) {
        const MessageRequest& request = operation.request;
        if (request.sends || now_ns - operation.submitted_ns < kQuestionNs) {
            return;
        }
        if (request.is_from_anybody()) {
            ranks.insert(ranks.end(), request.set->ranks.begin(), request.set->ranks.end());
        } else {
            ranks.push_back(request.peer);
        }
    });
    for (const int rank : ranks) {
        if (!is_local(rank)) {
            ask_for_departure_of(rank);
        }
    }
}

void Messenger::ask_for_departure_of(int rank) {
    const Result<MessagePeer*> peer = peer_of(rank);
    RUEDA_ASSERT(peer.is_ok());  // The peer is on another host, and opening a link to another host never fails.
    if (!std::exchange(peer.value()->was_asked, true)) {
        reply(*peer.value(), FrameKind::waiting, 0);
    }
}

/// Handles the answer to a message that was sent with Frame::kAwaited. This answer is a flag in the arena, not a frame.
Status Messenger::hear_taken(MessagePeer& peer, bool& moved) {
    if (peer.host == nullptr) {
        return {};
    }
    const std::uint64_t id = peer.host->taken_at_once();
    if (id == 0) {
        return {};
    }
    moved = true;
    Frame taken;
    taken.kind = static_cast<std::uint8_t>(FrameKind::taken);
    taken.id = id;
    return handle_answer(peer, taken);
}

Status Messenger::receive_from(MessagePeer& peer, bool& moved) {
    RUEDA_RETURN_IF_FAILED(hear_taken(peer, moved));
    peer.has_unread = false;
    std::uint64_t bytes = 0;
    for (int i = 0; i < kFramesPerStep && bytes < kBytesPerStep; ++i) {
        const auto received = peer.link->front();
        RUEDA_RETURN_IF_FAILED(received.status());
        if (!received.value()) {
            // A peer that is leaving counts as gone only when this rank has read all messages in the peer's resident
            // memory. The peer's sends of these messages end only when this rank has notified the peer.
            return peer.is_leaving && !peer.is_gone && peer.readings.empty() ? handle_gone(peer) : Status();
        }
        moved = true;
        const auto& [frame, payload] = *received.value();
        bytes += payload.size();
        if (!is_plausible(frame, payload.size())) {
            return failure(ErrorCode::internal,
                           "rank {} sent a frame of kind {} with {} bytes behind it, about message "
                           "{} of {} bytes, which no working rank does",
                           peer.rank, frame.kind, payload.size(), frame.id, frame.bytes);
        }
        RUEDA_RETURN_IF_FAILED(handle(peer, frame, payload));
        peer.link->pop();
    }
    peer.has_unread = true;
    return {};
}

Status Messenger::handle(MessagePeer& peer, const Frame& frame, std::span<const std::byte> payload) {
    switch (static_cast<FrameKind>(frame.kind)) {
        case FrameKind::whole:
        case FrameKind::offer:
            return handle_message(peer, frame, payload);
        case FrameKind::part:
            return handle_part(peer, frame, payload);
        case FrameKind::waiting:
            peer.asks = true;
            if (has_shut_down_) {
                reply(peer, FrameKind::gone, 0);
            }
            return {};
        case FrameKind::gone:
            peer.is_leaving = true;
            return {};
        case FrameKind::withdrawn:
            return handle_withdrawal(peer, frame);
        default:
            return handle_answer(peer, frame);
    }
}

Status Messenger::handle_message(MessagePeer& peer, const Frame& frame, std::span<const std::byte> payload) {
    if (frame.id <= peer.last_heard_id) {
        return failure(ErrorCode::internal, "rank {} sent message {} after message {}", peer.rank, frame.id,
                       peer.last_heard_id);
    }
    peer.last_heard_id = frame.id;
    if (has_shut_down_) {
        if (peer.network != nullptr) {
            // Only a peer on another host needs this frame. A peer on the same host learns from a flag in the arena (in
            // this rank's door) that this rank has shut down.
            reply(peer, FrameKind::gone, 0);
        }
        return {};
    }
    MessageArrival arrival = arrival_of(peer.rank, frame);
    // The set was removed here. The sender also removes it, and forgets the message.
    if (forgotten_.contains(frame.set)) {
        if (arrival.is_resident) {
            reply(peer, FrameKind::dropped, frame.id);
        }
        return {};
    }
    if (MessageOperation* receive = matching_.receive_for(peer.rank, frame.tag, frame.set)) {
        give(*receive, peer.rank, arrival, payload.data());
        return {};
    }
    if (!payload.empty()) {
        arrival.payload = std::make_unique_for_overwrite<std::byte[]>(payload.size());
        std::memcpy(arrival.payload.get(), payload.data(), payload.size());
    }
    matching_.keep(std::move(arrival));
    return {};
}

Status Messenger::handle_part(MessagePeer& peer, const Frame& frame, std::span<const std::byte> payload) {
    const auto found = peer.receiving.find(frame.id);
    if (found == peer.receiving.end()) {
        return {};  // the message is unknown here, because its process set was removed
    }
    ReceivingMessage& message = found->second;
    if (message.source != nullptr || payload.size() > message.bytes - message.received_bytes) {
        return failure(ErrorCode::internal, "rank {} sent {} bytes of message {} where {} of {} have come", peer.rank,
                       payload.size(), frame.id, message.received_bytes, message.bytes);
    }
    std::memcpy(message.operation->request.memory + message.received_bytes, payload.data(), payload.size());
    message.received_bytes += payload.size();
    if (message.received_bytes == message.bytes) {
        finish_receiving(peer, frame.id);
    }
    return {};
}

void Messenger::finish_receiving(MessagePeer& peer, std::uint64_t id) {
    MessageOperation& operation = *peer.receiving.at(id).operation;
    peer.receiving.erase(id);
    reply(peer, FrameKind::taken, id);
    complete(operation, {}, peer.rank);
}

/// Whether the job was aborted. After an abort, the sender's program may already use the memory of a resident message
/// again, so the bytes that this rank has read may be wrong. The acquire fence before the load ensures that all earlier
/// reads of the message happened before this check. It pairs with AbortBlock::raise(), which is called before any rank
/// gives memory back. ThreadSanitizer does not support fences.
bool Messenger::job_has_ended() const {
#if !defined(RUEDA_THREAD_SANITIZER)
    std::atomic_thread_fence(std::memory_order_acquire);
#endif
    return arena_->control().abort.raised();
}

/// Reads a message that is in the peer's resident memory. Returns true if it read some bytes.
bool Messenger::read_resident(MessagePeer& peer) {
    if (peer.readings.empty()) {
        return false;
    }
    const std::uint64_t id = peer.readings.front();
    ReceivingMessage& message = peer.receiving.at(id);
    // One copy of 1 MiB would take longer than four of 256 KiB: glibc copies large blocks with another loop, which is
    // slow if the destination is in the cache of a distant core (docs/design/0010-send-receive.md).
    const std::uint64_t bytes = std::min(kBytesPerStep, message.bytes - message.received_bytes);
    // This copy allows overlaps: if a rank sends to itself, the message and the receive may overlap in memory.
    std::memmove(message.operation->request.memory + message.received_bytes, message.source + message.received_bytes,
                 bytes);
    message.received_bytes += bytes;
    // After an abort, the other ranks wait only for a limited time before they give their memory back. If this rank was
    // stopped for longer, the bytes that it read may be invalid. So after an abort, the receive does not complete here;
    // fail_all() ends it.
    if (message.received_bytes == message.bytes && !job_has_ended()) {
        peer.readings.pop_front();
        finish_receiving(peer, id);
    }
    return true;
}

/// Handles the receiver's answer about a message.
Status Messenger::handle_answer(MessagePeer& peer, const Frame& frame) {
    const auto found = peer.sending.find(frame.id);
    if (found == peer.sending.end()) {
        return frame.id <= peer.last_id ? Status()  // the message is unknown here, because its process set was removed
                                        : failure(ErrorCode::internal, "rank {} answers to message {}; it was sent {}",
                                                  peer.rank, frame.id, peer.last_id);
    }
    SendingMessage& message = found->second;
    const auto kind = static_cast<FrameKind>(frame.kind);
    const bool is_lent = message.state == SendingMessage::State::lent;
    const bool is_due = kind == FrameKind::asked     ? is_lent || message.state == SendingMessage::State::offered
                        : kind == FrameKind::kept    ? message.state == SendingMessage::State::whole
                        : kind == FrameKind::dropped ? is_lent
                                                     : message.state != SendingMessage::State::unsent &&
                                                           message.state != SendingMessage::State::dropped;
    if (!is_due) {
        return failure(ErrorCode::internal,
                       "rank {} answered with frame {} to message {}, whose state does not allow this answer",
                       peer.rank, frame.kind, frame.id);
    }
    const bool is_withdrawn = message.operation != nullptr && !message.operation->ends_with.is_ok();
    if (is_withdrawn && (kind == FrameKind::asked || kind == FrameKind::dropped)) {
        MessageOperation& operation = *message.operation;
        const Status reason = operation.ends_with;
        peer.sending.erase(found);
        complete(operation, reason);
        return {};
    }
    switch (kind) {
        case FrameKind::dropped:
            // The send must end. The message keeps this state until this rank learns the reason.
            message.state = SendingMessage::State::dropped;
            return {};
        case FrameKind::asked:
            message.state = SendingMessage::State::asked;
            recorder_.start(message.operation->recorded, base::ticks_now());
            peer.streams.push_back(frame.id);
            make_busy(peer);
            return {};
        case FrameKind::kept:
            if (MessageOperation* operation = std::exchange(message.operation, nullptr)) {
                complete(*operation, {});
            }
            return {};
        default:
            break;
    }
    const SendingMessage ended = std::move(message);
    peer.sending.erase(found);
    std::erase(peer.streams, frame.id);
    peer.unanswered -= std::min(ended.charge, peer.unanswered);
    if (kind == FrameKind::refused) {
        handle_refusal(peer, ended, frame);
    } else if (ended.operation != nullptr) {
        complete(*ended.operation, {});
    }
    return {};
}

void Messenger::handle_refusal(MessagePeer& peer, const SendingMessage& message, const Frame& frame) {
    const MessageMismatch mismatch{group_.rank,   peer.rank,     message.tag,
                                   message.dtype, message.bytes, static_cast<DType>(frame.dtype),
                                   frame.bytes};
    const Status status = mismatch.status(*message.set);
    if (message.operation != nullptr) {
        complete(*message.operation, status);
    } else {
        logger_.error("{} (its send had ended before: the receiver waited for something else)", status.message());
    }
}

/// Handles the sender's withdrawal of a resident message: the sender shuts down or has removed the process set, so its
/// send must end. If this rank is still reading the message, this rank answers when it has read everything.
Status Messenger::handle_withdrawal(MessagePeer& peer, const Frame& frame) {
    if (frame.id > peer.last_heard_id) {
        return failure(ErrorCode::internal, "rank {} withdraws message {}; it has sent {}", peer.rank, frame.id,
                       peer.last_heard_id);
    }
    const auto receiving = peer.receiving.find(frame.id);
    bool is_lent = receiving == peer.receiving.end() || receiving->second.is_lent;
    matching_.drop_arrivals([&](const MessageArrival& kept) {
        const bool is_meant = kept.sender == peer.rank && kept.id == frame.id;
        is_lent = is_lent && (!is_meant || (kept.is_resident && !kept.is_whole));
        return is_meant;
    });
    if (!is_lent) {
        return failure(ErrorCode::internal, "rank {} withdraws message {}, which does not lie in its resident memory",
                       peer.rank, frame.id);
    }
    if (receiving == peer.receiving.end()) {
        reply(peer, FrameKind::dropped, frame.id);
    }
    return {};
}

/// Completes the departure of a peer. Call this when this rank has read everything that the peer wrote before it left.
Status Messenger::handle_gone(MessagePeer& peer) {
    if (peer.network == nullptr) {
        // The peer waits until this rank has answered about the peer's resident messages. If the ring has no space for
        // these answers, the peer waits until all ranks have shut down.
        bool moved = false;
        RUEDA_RETURN_IF_FAILED(send_replies(peer, moved).status());
        peer.link->tell();
    }
    peer.is_gone = true;
    const int rank = peer.rank;
    // Messages that have arrived completely are not dropped, because this rank holds their bytes.
    matching_.drop_arrivals([rank](const MessageArrival& kept) { return kept.sender == rank && !kept.is_whole; });
    std::vector<MessageOperation*> ended;
    peer.take_out([](std::int32_t) { return true; }, ended);
    peer.clear();
    const std::vector<MessageOperation*> receives = matching_.take_receives([&](const MessageRequest& request) {
        return request.is_from_anybody() ? all_others_are_gone(request) : request.peer == rank;
    });
    ended.insert(ended.end(), receives.begin(), receives.end());
    for (MessageOperation* operation : ended) {
        const Status reason = operation->ends_with;
        complete(*operation, reason.is_ok() ? gone_status(operation->request) : reason);
    }
    return {};
}

bool Messenger::all_others_are_gone(const MessageRequest& request) const {
    return request.set->ranks.size() > 1 &&
           std::all_of(request.set->ranks.begin(), request.set->ranks.end(), [this](int rank) {
               const auto peer = peers_.find(rank);
               return rank == group_.rank || (peer != peers_.end() && peer->second->is_gone);
           });
}

Status Messenger::gone_status(const MessageRequest& request) const {
    return request.is_from_anybody()
               ? failure(ErrorCode::aborted, "{}: all other ranks have shut down", request.describe())
               : failure(ErrorCode::aborted, "{}: rank {} has shut down", request.describe(), request.peer);
}

}  // namespace rueda::core
