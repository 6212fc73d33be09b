// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/messages/frame.hpp"

#include <algorithm>
#include <iterator>

#include "rueda/types.hpp"

namespace rueda::core {

bool is_plausible(const Frame& frame, std::size_t payload_bytes) {
    const bool is_dtype = frame.dtype < static_cast<std::uint32_t>(kDTypeCount);
    if (std::any_of(std::begin(frame.reserved), std::end(frame.reserved),
                    [](std::uint8_t byte) { return byte != 0; })) {
        return false;
    }
    switch (static_cast<FrameKind>(frame.kind)) {
        case FrameKind::whole:
            return is_dtype && frame.id != 0 && frame.bytes == payload_bytes && (frame.flags & ~Frame::kAwaited) == 0;
        case FrameKind::offer:
            return is_dtype && frame.id != 0 && frame.bytes != 0 && payload_bytes == 0 &&
                   (frame.flags & ~Frame::kResident) == 0;
        case FrameKind::part:
            return frame.id != 0 && payload_bytes != 0;
        case FrameKind::refused:
            return is_dtype && frame.id != 0 && payload_bytes == 0;
        case FrameKind::asked:
        case FrameKind::taken:
        case FrameKind::kept:
        case FrameKind::withdrawn:
        case FrameKind::dropped:
            return frame.id != 0 && payload_bytes == 0;
        case FrameKind::waiting:
        case FrameKind::gone:
            return payload_bytes == 0;
    }
    return false;
}

}  // namespace rueda::core
