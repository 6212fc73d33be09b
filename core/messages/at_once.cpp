// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Small messages between two ranks of one host whose callers both wait (docs/design/0010-send-receive.md).
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/shared_memory/atomics.hpp"
#include "base/system/clock.hpp"
#include "core/messages/messenger.hpp"

namespace rueda::core {
namespace {

/// A sender that waits for the receiver looks at every 16th time whether a frame has arrived.
constexpr int kLooksPerFrameLook = 16;

/// Copies the bytes of a frame while the sender writes them. Returns false if the sender has written nothing for some
/// µs.
bool copy_while_written(HostLink& link, std::byte* to, std::span<const std::byte> payload, int looks) {
    std::size_t done = 0;
    for (int look = 0; done < payload.size(); ++look) {
        const std::size_t written = std::min(link.written_bytes(), payload.size());
        if (written > done) {
            std::memcpy(to + done, payload.data() + done, written - done);
            done = written;
            look = 0;
        } else if (look == looks) {
            return false;
        } else {
            base::StdAtomics::pause();
        }
    }
    return true;
}

}  // namespace

Result<Messenger::AtOnce> Messenger::run_at_once(MessageRequest& request, Completion& completion, int looks) {
    MessagePeer* const peer = peer_at_once(request);
    if (peer == nullptr) {
        return AtOnce::no;
    }
    return request.sends ? send_at_once(*peer, request, completion, looks)
                         : receive_at_once(*peer, request, completion, looks);
}

/// Returns the other rank of an operation that can be tried at once; null for every other operation. If an operation of
/// this rank is pending, returns null too: a message must not overtake an earlier one, and the pending operation must
/// make progress.
MessagePeer* Messenger::peer_at_once(const MessageRequest& request) const {
    if (transport_ != nullptr || active_.load(std::memory_order_relaxed) ||
        has_submitted_.load(std::memory_order_seq_cst) || has_shut_down_ || has_said_gone_ ||
        request.device != nullptr) {
        return nullptr;
    }
    const auto found = peers_.find(request.peer);
    if (found == peers_.end() || request.peer == group_.rank || forgotten_.contains(request.set->id)) {
        return nullptr;
    }
    // If another rank has written to this rank, no operation is tried at once, because step() must handle the message.
    // The sender may be waiting until it learns that this rank is blocked and that this rank keeps the message.
    MessagePeer& peer = *found->second;
    return request.bytes > peer.host->largest_whole() || peer.is_leaving || peer.is_gone || peer.has_output() ||
                   door_.step.anybody_but(peer.host->member())
               ? nullptr
               : &peer;
}

/// Sends a message, and waits a few µs for the receiver to take it. If this takes longer, the send becomes a pending
/// operation whose message was already sent.
Result<Messenger::AtOnce> Messenger::send_at_once(MessagePeer& peer, MessageRequest& request, Completion& completion,
                                                  int looks) {
    if (!peer.accepts_whole(request.bytes)) {
        return AtOnce::no;
    }
    Frame frame = request.frame(FrameKind::whole, peer.last_id + 1);
    frame.flags = Frame::kAwaited;
    const Result<bool> sent = peer.host->send_awaited(frame, {request.memory, request.bytes});
    if (!sent.is_ok() || !sent.value()) {
        return sent.is_ok() ? Result<AtOnce>(AtOnce::no) : sent.status();
    }
    peer.last_id = frame.id;
    peer.host->tell();
    const std::uint64_t recorded = record(request);
    // If the receiver takes the message and then sends a message itself, this rank sees both events in this order. So
    // the loop ends as soon as a frame has arrived, and taken_at_once() is then called once more. The loop seldom looks
    // for a frame, because the receiver is about to write its reply to the cache line at which has_frame() looks.
    bool is_taken = peer.host->taken_at_once() != 0;
    for (int look = 1; look < looks && !is_taken; ++look) {
        if (look % kLooksPerFrameLook == 0 && peer.host->has_frame()) {
            break;
        }
        base::StdAtomics::pause();
        is_taken = peer.host->taken_at_once() != 0;
    }
    if (is_taken || peer.host->taken_at_once() != 0) {
        recorder_.end_message(recorded, base::ticks_now(), ErrorCode::ok, -1);
        return AtOnce::done;
    }
    MessageOperation& operation = begin_recorded(std::move(request), completion, recorded);
    SendingMessage& message = peer.sending[frame.id];
    message.belong_to(operation);
    peer.note_whole(message);
    make_busy(peer);
    return AtOnce::begun;
}

/// Waits a few µs for the message. If another frame arrives, or the message takes longer, the receive becomes a pending
/// operation.
Result<Messenger::AtOnce> Messenger::receive_at_once(MessagePeer& peer, MessageRequest& request, Completion& completion,
                                                     int looks) {
    if (matching_.has(request.tag, request.set->id)) {
        return AtOnce::no;
    }
    const std::uint64_t recorded = record(request);
    peer.host->prefetch_ring(request.bytes);
    for (int look = 1; look < looks && !peer.host->has_awaited(); ++look) {
        base::StdAtomics::pause();
    }
    const auto received = peer.host->begun();
    RUEDA_RETURN_IF_FAILED(received.status());
    if (received.value()) {
        // Most programs answer a small message with another one.
        peer.host->prefetch_to_send();
        const auto& [frame, payload] = *received.value();
        const Frame expected = request.frame(FrameKind::whole, frame.id);
        if (frame.flags == Frame::kAwaited && frame.kind == expected.kind && frame.tag == expected.tag &&
            frame.set == expected.set && frame.dtype == expected.dtype && frame.bytes == expected.bytes &&
            payload.size() == expected.bytes && frame.id > peer.last_heard_id &&
            copy_while_written(*peer.host, request.memory, payload, looks)) {
            peer.last_heard_id = frame.id;
            peer.host->take_at_once();
            completion.sender = peer.rank;
            recorder_.end_message(recorded, base::ticks_now(), ErrorCode::ok, peer.rank);
            return AtOnce::done;
        }
    }
    begin(begin_recorded(std::move(request), completion, recorded));
    make_busy(peer);
    return AtOnce::begun;
}

/// Makes an operation pending that is in the flight recorder already.
MessageOperation& Messenger::begin_recorded(MessageRequest&& request, Completion& completion, std::uint64_t recorded) {
    const std::lock_guard listing(operations_mutex_);
    MessageOperation& operation = list(std::move(request), completion);
    operation.recorded = recorded;
    completion.message_record = recorded;
    pending_.fetch_add(1, std::memory_order_seq_cst);
    active_.store(true, std::memory_order_relaxed);
    return operation;
}

}  // namespace rueda::core
