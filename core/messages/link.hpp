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

/// Carries frames between this rank and one other rank, in each direction in the order in which they were sent. Nothing
/// here blocks. A failure ends the job. Threads: one at a time, the thread that drives progress.
class Link {
public:
    struct Received {
        Frame frame;
        std::span<const std::byte> payload;  ///< may be shared memory; valid until pop()
    };

    Link() = default;
    virtual ~Link() = default;
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;

    /// The maximum number of bytes that can follow a frame.
    [[nodiscard]] virtual std::size_t largest_payload() const = 0;
    /// Sends a frame and copies its bytes. Returns false if there is no room now.
    [[nodiscard]] virtual Result<bool> send(const Frame& frame, std::span<const std::byte> payload) = 0;
    /// Says that everything sent since the last call is there, and wakes a rank that waits for it.
    virtual void tell() {}
    /// Returns the first frame that has arrived and was not removed, unchecked.
    [[nodiscard]] virtual Result<std::optional<Received>> front() = 0;
    virtual void pop() = 0;
    /// The other rank's resident memory, as this rank can read it; null if it cannot be read, or if nothing lies at
    /// that place.
    [[nodiscard]] virtual const std::byte* resident(std::uint64_t /*offset*/, std::uint64_t /*bytes*/) const {
        return nullptr;
    }
    /// Whether this rank must poll the link, because nothing wakes it when a frame arrives.
    [[nodiscard]] virtual bool has_to_poll() const { return false; }
};

}  // namespace rueda::core
