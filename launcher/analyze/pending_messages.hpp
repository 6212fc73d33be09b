// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <vector>

#include "base/recorder/recording_file.hpp"
#include "launcher/analyze/operation_text.hpp"

namespace rueda::launcher {

/// A send or a receive that had not ended, or that failed because the job ended.
struct PendingMessage {
    enum class OtherSide : std::uint8_t {
        called,      ///< the other rank waits for this message too
        not_called,  ///< the other rank does not wait for this message
        unknown,     ///< the other rank has no file
    };

    std::int32_t rank = 0;
    std::int32_t set_id = 0;
    OperationText what;
    std::uint64_t bytes = 0;
    std::int64_t waited_ns = 0;  ///< the time from the call of this send or receive until the file was written
    bool is_blocking = false;    ///< whether a thread of the program waited for the message
    OtherSide other_side = OtherSide::unknown;
};

/// Two ranks that send to each other, both with a blocking send. Neither of them receives, so both wait.
struct CrossedSends {
    std::int32_t rank = 0;
    std::int32_t other = 0;
};

struct PendingMessages {
    std::vector<PendingMessage> messages;  ///< ordered by rank; the messages of one rank are in the order of the rank's
                                           ///< calls
    std::vector<CrossedSends> crossed;
};

[[nodiscard]] PendingMessages find_pending_messages(const std::vector<base::Recording>& recordings);

}  // namespace rueda::launcher
