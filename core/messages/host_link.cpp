// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/messages/host_link.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/system/memory_limits.hpp"

namespace rueda::core {

using base::AttentionState;
using collectives::Arena;
using collectives::MessageRegion;

Result<std::unique_ptr<HostLink>> HostLink::open(const std::shared_ptr<Arena>& arena, std::uint32_t member) {
    const MessageRegion region = arena->message_region();
    RUEDA_RETURN_IF_FAILED(base::check_memory(region.footprint(), "the room for messages to another rank"));
    return std::make_unique<HostLink>(arena, member);
}

HostLink::HostLink(std::shared_ptr<Arena> arena, std::uint32_t member)
    : arena_(std::move(arena)),
      region_(arena_->message_region()),
      own_(arena_->rank()),
      member_(member),
      out_(region_.state(own_, member), region_.bytes(own_, member), region_.ring_bytes()),
      in_(region_.state(member, own_), region_.bytes(member, own_), region_.ring_bytes()) {}

// Without the last cache line, four of the longest parts of a message fit into the ring.
std::size_t HostLink::largest_payload() const { return out_.largest() - sizeof(Frame) - base::kCacheLine; }

std::size_t HostLink::largest_whole() const { return std::min(kMostWhole, out_.largest() - sizeof(Frame)); }

Result<bool> HostLink::send(const Frame& frame, std::span<const std::byte> payload) {
    const Result<std::byte*> room = out_.reserve(sizeof(Frame) + payload.size());
    RUEDA_RETURN_IF_FAILED(room.status());
    if (room.value() == nullptr) {
        return false;
    }
    write(room.value(), frame, payload);
    return true;
}

Result<bool> HostLink::send_awaited(const Frame& frame, std::span<const std::byte> payload) {
    const Result<std::byte*> room = out_.reserve_near(sizeof(Frame) + payload.size());
    RUEDA_RETURN_IF_FAILED(room.status());
    if (room.value() != nullptr) {
        write(room.value(), frame, payload);
    } else if (Result<bool> sent = send(frame, payload); !sent.is_ok() || !sent.value()) {
        return sent;
    }
    awaited_id_ = frame.id;
    awaited_end_ = out_.position();
    return true;
}

void HostLink::write(std::byte* room, const Frame& frame, std::span<const std::byte> payload) {
    std::memcpy(room, &frame, sizeof(Frame));
    std::byte* const to = room + sizeof(Frame);
    std::size_t done = 0;
    for (; payload.size() - done > kStretch; done += kStretch) {
        std::memcpy(to + done, payload.data() + done, kStretch);
        out_.publish_begin(sizeof(Frame) + done + kStretch);
    }
    if (!payload.empty()) {
        std::memcpy(to + done, payload.data() + done, payload.size() - done);
    }
    out_.publish();
    has_sent_ = true;
}

void HostLink::tell() {
    if (std::exchange(has_sent_, false)) {
        knock();
    }
}

void HostLink::knock() {
    if (!region_.door(member_).step.knock(own_)) {
        return;
    }
    // The load of the attention state pairs with Attention::set(). A rank that has sent a frame sets a flag in the
    // other rank's door (the flags in the arena by which ranks notify each other). Before the other rank sleeps, it
    // calls Attention::set(), and then checks the flags in its door. A rank without pending operations is not woken: it
    // checks its door when it has a pending operation again.
    auto& attention = arena_->blocks().of(member_).attention;
    if (const AttentionState state = attention.state(); state != AttentionState::awake && member_ != own_) {
        attention.ring(state);
    }
}

Result<std::optional<Link::Received>> HostLink::front() { return received(in_.front()); }

Result<std::optional<Link::Received>> HostLink::begun() { return received(in_.begun()); }

Result<std::optional<Link::Received>> HostLink::received(
    const Result<std::optional<std::span<const std::byte>>>& record) {
    RUEDA_RETURN_IF_FAILED(record.status());
    if (!record.value()) {
        return std::optional<Received>();
    }
    if (record.value()->size() < sizeof(Frame)) {
        return failure(ErrorCode::internal, "a frame of a message has {} bytes, fewer than a working rank writes",
                       record.value()->size());
    }
    Received received;
    std::memcpy(&received.frame, record.value()->data(), sizeof(Frame));
    // keeps the compiler from reading the frame again after it was checked
    std::atomic_signal_fence(std::memory_order_seq_cst);
    front_is_awaited_ = (received.frame.flags & Frame::kAwaited) != 0;
    received.payload = record.value()->subspan(sizeof(Frame));
    return std::optional(received);
}

void HostLink::pop() {
    if (front_is_awaited_ ? in_.pop_awaited(/*at_once=*/false) : in_.pop()) {
        // The other rank waits for space in the ring. This call notifies it in the same way as a new frame would. The
        // other rank then looks for frames that it still has to send to this rank.
        knock();
    }
}

void HostLink::take_at_once() {
    static_cast<void>(in_.pop_awaited(/*at_once=*/true));
    knock();  // wakes the sender if it sleeps; also notifies it if it waits for space in the ring
}

const std::byte* HostLink::resident(std::uint64_t offset, std::uint64_t bytes) const {
    return arena_->resident_memory(member_, offset, bytes);
}

}  // namespace rueda::core
