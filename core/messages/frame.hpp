// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace rueda::core {

/// What two ranks tell each other about a message (docs/design/0010-send-receive.md).
enum class FrameKind : std::uint32_t {
    // The sender to the receiver.
    whole = 1,       ///< a message, with all its bytes
    offer = 2,       ///< a message whose bytes come when they are asked for
    part = 3,        ///< the next bytes of one that was asked for
    withdrawn = 10,  ///< of a resident one, whose send is to end: let go of it, unless it is being read
    // The receiver to the sender, about message `id` of the latter.
    asked = 4,     ///< send the bytes
    taken = 5,     ///< it has been received
    kept = 6,      ///< a whole one lies here until its receive is called: do not wait for that
    refused = 7,   ///< its receive does not fit: that one's `dtype` and `bytes`
    dropped = 11,  ///< a resident one: its memory is not read, and will not be
    // Either.
    waiting = 8,  ///< I wait for a message of yours: tell me should you shut down
    gone = 9,     ///< I have shut down; nothing comes after this
};

/// Before the bytes of a frame, if it has any. Between processes; fields without a meaning for the kind are 0.
struct Frame {
    /// Of an offer: its bytes lie at `place` of the sender's resident memory, and are read there.
    static constexpr std::uint32_t kResident = 1;

    std::uint32_t kind = 0;  ///< FrameKind
    std::int32_t tag = 0;
    std::int32_t set = 0;     ///< id of the process set
    std::uint32_t dtype = 0;  ///< DType
    std::uint64_t id = 0;     ///< of the message, among those of its sender to its receiver; from 1 on
    std::uint64_t bytes = 0;  ///< of the whole message
    std::uint64_t place = 0;
    std::uint32_t flags = 0;
    std::uint32_t reserved = 0;
};
static_assert(std::is_trivially_copyable_v<Frame> && sizeof(Frame) == 48);

/// Could a working rank have sent it, with so many bytes behind it?
[[nodiscard]] bool is_plausible(const Frame& frame, std::size_t payload_bytes);

}  // namespace rueda::core
