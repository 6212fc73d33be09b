// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <memory>
#include <utility>

#include "collectives/host/arena/arena.hpp"
#include "collectives/host/arena/message_region.hpp"
#include "core/messages/link.hpp"

namespace rueda::core {

/// A link to a rank of the same host. That rank may be this rank itself. The link consists of two rings in the arena.
class HostLink final : public Link {
public:
    /// Fails with ResourceExhausted if there is no memory for the ring that this rank writes to.
    [[nodiscard]] static Result<std::unique_ptr<HostLink>> open(const std::shared_ptr<collectives::Arena>& arena,
                                                                std::uint32_t member);

    HostLink(std::shared_ptr<collectives::Arena> arena, std::uint32_t member);

    [[nodiscard]] std::size_t largest_payload() const override;
    [[nodiscard]] std::size_t largest_whole() const override;
    [[nodiscard]] Result<bool> send(const Frame& frame, std::span<const std::byte> payload) override;
    /// The longest message that send_awaited() can put beside the ring's state.
    static constexpr std::size_t kNearPayload = collectives::RingState::kNearBytes - sizeof(Frame);
    static_assert(kNearPayload == 64 && sizeof(Frame) == collectives::RingState::kNearInFirstLine);
    /// Like send(), for a message that its receiver may take at once (Frame::kAwaited). If the message has at most
    /// kNearPayload bytes and the ring is empty, the message is put beside the ring's state
    /// (MessageRingState::near_bytes). No earlier awaited message may be without an answer.
    [[nodiscard]] Result<bool> send_awaited(const Frame& frame, std::span<const std::byte> payload);
    void tell() override;
    [[nodiscard]] Result<std::optional<Received>> front() override;
    void pop() override;
    [[nodiscard]] const std::byte* resident(std::uint64_t offset, std::uint64_t bytes) const override;

    /// Like front(), but also returns a frame whose bytes are still being written.
    [[nodiscard]] Result<std::optional<Received>> begun();
    /// How many bytes after the frame that begun() returned can be read.
    [[nodiscard]] std::size_t written_bytes() {
        const std::uint64_t written = in_.written_bytes();
        return written < sizeof(Frame) ? 0 : written - sizeof(Frame);
    }
    /// The number of the other rank among the members.
    [[nodiscard]] std::uint32_t member() const { return member_; }
    /// Whether front() would return a frame.
    [[nodiscard]] bool has_frame() const { return in_.has_record(); }
    /// Like has_frame(), but faster if the next frame is an awaited message of at most kNearPayload bytes.
    [[nodiscard]] bool has_awaited() const {
        in_.prefetch_near();
        return in_.has_record();
    }
    /// Removes the frame that front() returned, and tells its sender that the message was received. The frame must have
    /// the flag Frame::kAwaited.
    void take_at_once();
    /// If the other rank called take_at_once() for the last awaited message of this rank, returns the number of this
    /// message, but only once. Otherwise returns 0.
    [[nodiscard]] std::uint64_t taken_at_once() {
        return awaited_id_ != 0 && out_.is_taken(awaited_end_) ? std::exchange(awaited_id_, 0) : 0;
    }
    /// Starts to load the cache lines that the next awaited message is written to. Call this when the program will
    /// probably send a message soon.
    void prefetch_to_send() const { out_.prefetch(); }
    /// Starts to load the cache lines of the ring that the next message is written to, if it has `bytes` bytes and does
    /// not fit beside the ring's state.
    void prefetch_ring(std::size_t bytes) const {
        if (bytes > kNearPayload && bytes <= kMostPrefetched) {
            out_.prefetch_record(sizeof(Frame) + bytes);
        }
    }

private:
    /// Messages on one host are sent whole up to this size. In a larger message, the time of the offer and its answer
    /// (about 1 µs) matters less.
    static constexpr std::size_t kMostWhole = 64 * 1024;
    /// The copy of a longer message (with the instruction `rep movsb` in glibc) requests its cache lines in time.
    static constexpr std::size_t kMostPrefetched = 2048;
    /// A long record is published in stretches of this many bytes, so that the receiver can copy one stretch while the
    /// sender writes the next one. With 24 KiB, a message of 64 KiB took the least time between distant cores
    /// (docs/design/0010-send-receive.md).
    static constexpr std::size_t kStretch = 24 * 1024;

    [[nodiscard]] Result<std::optional<Received>> received(
        const Result<std::optional<std::span<const std::byte>>>& record);
    void write(std::byte* room, const Frame& frame, std::span<const std::byte> payload);
    void knock();

    std::shared_ptr<collectives::Arena> arena_;
    collectives::MessageRegion region_;
    std::uint32_t own_;
    std::uint32_t member_;  // the number of the other rank among the members
    collectives::MessageRingWriter<base::StdAtomics> out_;
    collectives::MessageRingReader<base::StdAtomics> in_;
    bool has_sent_ = false;
    bool front_is_awaited_ = false;  ///< whether the last frame that front() returned has the flag Frame::kAwaited
    std::uint64_t awaited_id_ = 0;   ///< the number of the last awaited message, until taken_at_once() has returned it
    std::uint64_t awaited_end_ = 0;  ///< where the record of this message ends in the ring
};

}  // namespace rueda::core
