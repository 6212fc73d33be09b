// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Sends to other ranks: replies, whole messages, offers, and the parts that a receiver has asked for.
#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/system/clock.hpp"
#include "core/messages/messenger.hpp"

namespace rueda::core {
namespace {

/// After a send, this rank polls for this long, because MPI may still hold frames of the send. MPI sends them only
/// while this rank calls MPI. ProcessSet polls after a send, too.
constexpr std::int64_t kSendingNs = 1'000'000'000;

std::span<const std::byte> bytes_of(const std::byte* memory, std::uint64_t offset, std::uint64_t bytes) {
    return bytes == 0 ? std::span<const std::byte>() : std::span<const std::byte>(memory + offset, bytes);
}

}  // namespace

Status Messenger::send_to(MessagePeer& peer, bool& moved) {
    const std::uint64_t sent_before = peer.network != nullptr ? peer.network->sent() : 0;
    if (peer.is_gone) {
        peer.replies.clear();
    }
    Result<bool> has_room = send_replies(peer, moved);
    if (has_room.is_ok() && has_room.value()) {
        has_room = send_messages(peer, moved);
    }
    if (has_room.is_ok() && has_room.value()) {
        has_room = send_parts(peer, moved);
    }
    RUEDA_RETURN_IF_FAILED(has_room.status());
    peer.link->tell();
    if (peer.network != nullptr && peer.network->sent() != sent_before) {
        polls_until_ns_.store(base::coarse_monotonic_ns() + kSendingNs, std::memory_order_relaxed);
    }
    if (has_room.value() && peer.has_output()) {
        make_busy(peer);
    }
    hold_job(peer, !peer.replies.empty());
    return {};
}

/// Sends the replies. Returns true if all replies were sent. In this case there may be space for other frames.
Result<bool> Messenger::send_replies(MessagePeer& peer, bool& moved) {
    while (!peer.replies.empty()) {
        Result<bool> sent = peer.link->send(peer.replies.front(), {});
        if (!sent.is_ok() || !sent.value()) {
            return sent;
        }
        peer.replies.pop_front();
        moved = true;
    }
    return true;
}

Result<bool> Messenger::send_messages(MessagePeer& peer, bool& moved) {
    for (int i = 0; i < kFramesPerStep && !peer.unsent.empty(); ++i) {
        const std::uint64_t id = peer.unsent.front();
        Result<bool> sent = send_first(peer, id, peer.sending.at(id));
        if (!sent.is_ok() || !sent.value()) {
            return sent;
        }
        peer.unsent.pop_front();
        moved = true;
    }
    return true;
}

/// Sends the message whole, or sends an offer of it.
Result<bool> Messenger::send_first(MessagePeer& peer, std::uint64_t id, SendingMessage& message) {
    RUEDA_ASSERT(message.operation != nullptr);
    const MessageRequest& request = message.operation->request;
    const std::byte* const memory = request.memory;
    if (peer.accepts_whole(message.bytes)) {
        const Frame frame = request.frame(FrameKind::whole, id);
        Result<bool> sent = peer.link->send(frame, bytes_of(memory, 0, message.bytes));
        if (sent.is_ok() && sent.value()) {
            peer.note_whole(message);
        }
        return sent;
    }
    Frame frame = request.frame(FrameKind::offer, id);
    if (const auto place = peer.network == nullptr ? arena_->resident_offset(memory, message.bytes) : std::nullopt) {
        frame.flags = Frame::kResident;
        frame.place = *place;
    }
    Result<bool> sent = peer.link->send(frame, {});
    if (sent.is_ok() && sent.value()) {
        message.state = frame.flags == Frame::kResident ? SendingMessage::State::lent : SendingMessage::State::offered;
    }
    return sent;
}

Result<bool> Messenger::send_parts(MessagePeer& peer, bool& moved) {
    std::uint64_t bytes = 0;
    while (!peer.streams.empty() && bytes < kBytesPerStep) {
        SendingMessage& message = peer.sending.at(peer.streams.front());
        Frame frame;
        frame.kind = static_cast<std::uint8_t>(FrameKind::part);
        frame.id = peer.streams.front();
        const std::uint64_t part =
            std::min<std::uint64_t>(peer.link->largest_payload(), message.bytes - message.sent_bytes);
        Result<bool> sent =
            peer.link->send(frame, bytes_of(message.operation->request.memory, message.sent_bytes, part));
        if (!sent.is_ok() || !sent.value()) {
            return sent;
        }
        peer.link->tell();  // The notification lets the peer copy this part while this rank writes the next part.
        message.sent_bytes += part;
        bytes += part;
        moved = true;
        if (message.sent_bytes == message.bytes) {
            peer.streams.pop_front();
        }
    }
    return true;
}

/// Replies that wait for space in the ring count as a pending operation. So this rank stays awake to send them, even if
/// it has no other work.
void Messenger::hold_job(MessagePeer& peer, bool holds) {
    if (std::exchange(peer.holds_job, holds) != holds) {
        if (holds) {
            pending_.fetch_add(1, std::memory_order_seq_cst);
        } else {
            pending_.fetch_sub(1, std::memory_order_seq_cst);
        }
    }
}

void Messenger::tell_senders_to_go_on() {
    for (const Matching::Untold& untold : matching_.take_untold()) {
        reply(known(untold.sender), FrameKind::kept, untold.id);
    }
}

}  // namespace rueda::core
