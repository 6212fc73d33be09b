// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <memory>

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
    [[nodiscard]] Result<bool> send(const Frame& frame, std::span<const std::byte> payload) override;
    /// The longest message that send_awaited() can put beside the ring's state.
    static constexpr std::size_t kNearPayload = collectives::RingState::kNearBytes - sizeof(Frame);
    static_assert(kNearPayload == 72);
    /// Like send(), for a message that its receiver may take at once (Frame::kAwaited). If the message has at most
    /// kNearPayload bytes and the ring is empty, the message is put beside the ring's state
    /// (MessageRingState::near_bytes).
    [[nodiscard]] Result<bool> send_awaited(const Frame& frame, std::span<const std::byte> payload);
    void tell() override;
    [[nodiscard]] Result<std::optional<Received>> front() override;
    void pop() override;
    [[nodiscard]] const std::byte* resident(std::uint64_t offset, std::uint64_t bytes) const override;

    /// The number of the other rank among the members.
    [[nodiscard]] std::uint32_t member() const { return member_; }
    /// Whether front() would return a frame.
    [[nodiscard]] bool has_frame() const { return in_.has_record(); }
    /// Removes the frame that front() returned, and tells its sender that the message was received. The frame is the
    /// message with the number `id`, and has the flag Frame::kAwaited.
    void take(std::uint64_t id);
    /// The number of the last message from this rank for which the other rank called take(), or 0 if there is none. The
    /// other rank wrote this number, and it is not checked here.
    [[nodiscard]] std::uint64_t taken() const {
        return region_.state(own_, member_).taken.load(std::memory_order_seq_cst);
    }

private:
    void write(std::byte* room, const Frame& frame, std::span<const std::byte> payload);
    void knock();

    std::shared_ptr<collectives::Arena> arena_;
    collectives::MessageRegion region_;
    std::uint32_t own_;
    std::uint32_t member_;  // the number of the other rank among the members
    collectives::MessageRingWriter<base::StdAtomics> out_;
    collectives::MessageRingReader<base::StdAtomics> in_;
    bool has_sent_ = false;
};

}  // namespace rueda::core
