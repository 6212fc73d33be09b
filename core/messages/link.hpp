// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/status.hpp"
#include "core/messages/frame.hpp"

namespace rueda::core {

/// Carries frames between this rank and one other rank. In each direction, frames arrive in the order in which they
/// were sent. No function here blocks. If a function fails, the job ends. Threads: one at a time, the thread that
/// drives progress.
class Link {
public:
    struct Received {
        Frame frame;
        /// the bytes of the frame; valid until pop(), because they may be in shared memory
        std::span<const std::byte> payload;
    };

    Link() = default;
    virtual ~Link() = default;
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;

    /// The maximum number of bytes that can follow a frame.
    [[nodiscard]] virtual std::size_t largest_payload() const = 0;
    /// Messages up to this size are sent whole, before the receiver asks for them. This saves two trips between the
    /// ranks, but the receiver must copy the bytes once more if no receive waits for them yet.
    [[nodiscard]] virtual std::size_t largest_whole() const = 0;
    /// Sends a frame and copies its bytes. Returns false if there is no space now.
    [[nodiscard]] virtual Result<bool> send(const Frame& frame, std::span<const std::byte> payload) = 0;
    /// Tells the other rank that frames were sent since the last call of tell(), and wakes the other rank if it waits
    /// for frames.
    virtual void tell() {}
    /// Returns the first frame that has arrived and has not been removed by pop(). The frame is not checked.
    [[nodiscard]] virtual Result<std::optional<Received>> front() = 0;
    virtual void pop() = 0;
    /// Returns the address at which this rank can read the other rank's resident memory. Returns null if this rank
    /// cannot read it, or if there is no resident memory at that offset.
    [[nodiscard]] virtual const std::byte* resident(std::uint64_t /*offset*/, std::uint64_t /*bytes*/) const {
        return nullptr;
    }
    /// Whether this rank must poll the link, because nothing wakes it when a frame arrives.
    [[nodiscard]] virtual bool has_to_poll() const { return false; }
};

}  // namespace rueda::core
