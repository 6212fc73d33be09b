// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace rueda::core {

/// The kinds of frames. A frame is what one rank tells another about a message (docs/design/0010-send-receive.md).
enum class FrameKind : std::uint8_t {
    // Frames from the sender of a message to its receiver:
    whole = 1,  ///< a message, with all its bytes
    offer = 2,  ///< a message without its bytes, which the sender sends only when the receiver asks for them
    part = 3,   ///< the next bytes of an offered message, after the receiver has asked for them
    /// the receiver must not begin to read an offered message in the sender's resident memory, because the send must
    /// end
    withdrawn = 10,
    // Frames from the receiver to the sender, about the message with the number `id`:
    asked = 4,     ///< send the bytes
    taken = 5,     ///< the message was received
    kept = 6,      ///< the receiver keeps the whole message until its receive is called, so the sender need not wait
    refused = 7,   ///< the matching receive expects another type or size; the frame's `dtype` and `bytes` are those of
                   ///< the receive
    dropped = 11,  ///< the receiver is not reading a message in the sender's resident memory, and will not read it
    // From either side:
    waiting = 8,  ///< the sender of this frame waits for a message from the other rank; the other rank must notify it
                  ///< when it shuts down
    gone = 9,     ///< the sender of this frame has shut down; this is its last frame
};

/// The header of a frame. If the frame has bytes, they follow the header. Processes exchange this struct. Fields that
/// have no meaning for the frame's kind are 0.
struct Frame {
    /// A flag of an offer. It says that the bytes are at `place` in the sender's resident memory, where the receiver
    /// reads them.
    static constexpr std::uint8_t kResident = 1;
    /// A flag of a whole message between ranks of one host. It says that the sender waits, and reads in shared memory
    /// whether the receiver took the message (MessageRingState::kTaken). So the receiver need not answer with the frame
    /// *taken*.
    static constexpr std::uint8_t kAwaited = 2;

    std::uint8_t kind = 0;   ///< FrameKind
    std::uint8_t dtype = 0;  ///< DType
    std::uint8_t flags = 0;
    std::uint8_t reserved[5] = {};
    std::int32_t tag = 0;
    std::int32_t set = 0;  ///< id of the process set
    /// the number of the message among all messages from its sender to its receiver; counts from 1
    std::uint64_t id = 0;
    std::uint64_t bytes = 0;  ///< bytes of the whole message
    std::uint64_t place = 0;
};
static_assert(std::is_trivially_copyable_v<Frame> && sizeof(Frame) == 40);

/// Whether a correct rank could have sent this frame with this number of bytes after it.
[[nodiscard]] bool is_plausible(const Frame& frame, std::size_t payload_bytes);

}  // namespace rueda::core
