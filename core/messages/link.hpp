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

/// Frames between this rank and one other, each way in the order in which they were sent. Nothing here blocks.
/// A failure ends the job.
/// Threads: one at a time, whoever holds the rank's crank.
class Link {
public:
    struct Received {
        Frame frame;
        std::span<const std::byte> payload;  ///< may be shared memory; until pop()
    };

    Link() = default;
    virtual ~Link() = default;
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;

    /// The most bytes behind a frame.
    [[nodiscard]] virtual std::size_t largest_payload() const = 0;
    /// False: there is no room now. The bytes are copied.
    [[nodiscard]] virtual Result<bool> send(const Frame& frame, std::span<const std::byte> payload) = 0;
    /// What was sent since the last time is there: wakes who waits for it.
    virtual void tell() {}
    /// The first frame that has come and was not taken, as it came: unchecked.
    [[nodiscard]] virtual Result<std::optional<Received>> front() = 0;
    virtual void pop() = 0;
    /// The other rank's resident memory, readable here; null: it is not, or nothing lies there.
    [[nodiscard]] virtual const std::byte* resident(std::uint64_t /*offset*/, std::uint64_t /*bytes*/) const {
        return nullptr;
    }
    /// Nobody tells of what comes: it has to be asked for.
    [[nodiscard]] virtual bool has_to_poll() const { return false; }
};

}  // namespace rueda::core
