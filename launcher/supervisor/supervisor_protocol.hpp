// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/watch/rank_end.hpp"

namespace rueda::launcher {

/// The kinds of frames (frame_link.hpp) between ruedarun and a supervisor under mpirun. Each line below names the
/// sender and says what the frame's value and payload mean.
enum class FrameKind : std::uint32_t {
    hello = 1,         ///< supervisor: the value is its rank, and the payload is a Greeting
    welcome = 2,       ///< ruedarun: start the program as one of `value` ranks, with the variables of the payload
                       ///< (torch_variables.hpp)
    started = 3,       ///< supervisor: the value is the program's pid
    start_failed = 4,  ///< supervisor: the value is the errno; this supervisor reports nothing more
    ended = 5,         ///< supervisor: the value is the program's wait status, and the payload is the rest of its
                       ///< RankEnd
    deliver = 6,       ///< ruedarun: send the signal `value` to the program
    leave = 7,         ///< ruedarun: all ranks have ended; exit
    rank_ended = 8,    ///< ruedarun: another rank has ended; the payload is the notification for the program
                       ///< (base/launcher_notification.hpp)
    output = 9,        ///< supervisor: output of the program; the value is kStandardOutput or kStandardError
    more_output = 10,  ///< ruedarun: `value` more bytes of output may be sent
    stop_output = 11,  ///< ruedarun: close the stream `value`, because it has no reader any more
    descriptors = 12,  ///< ruedarun, only if it is on the same host, before `welcome`: descriptors for the program's
                       ///< standard output and error; the supervisor then sends no `output`
};

/// How much output a supervisor may send before it receives `more_output`. ruedarun reads all frames in their order.
/// Because of this limit, a report never waits behind a lot of output that ruedarun cannot print yet.
inline constexpr std::int32_t kOutputCredit = 128 << 10;

inline constexpr std::int32_t kStandardOutput = 1;
inline constexpr std::int32_t kStandardError = 2;

/// The payload of `hello`.
struct Greeting {
    std::string secret;             ///< proves that ruedarun's own mpirun started the supervisor
    std::string host;               ///< the name of the supervisor's host, for messages
    std::uint16_t master_port = 0;  ///< a port that rank 0's supervisor has reserved for its program; 0 if there is
                                    ///< none
    std::string host_key;           ///< the same for all ranks of one host (network.hpp)
};

[[nodiscard]] std::string encode_greeting(const Greeting& greeting);
/// Accepts any text. If a part is missing, its member is empty. In the name of the host, characters that could affect a
/// terminal are replaced.
[[nodiscard]] Greeting parse_greeting(std::string_view text);

/// Encodes the payload of `ended`, which contains by_launcher, steps, oom_kills and abort_reason of `end`.
[[nodiscard]] std::string encode_report(const RankEnd& end);
/// Sets these four members of `end` from a payload. Unknown lines are ignored.
void read_report(std::string_view text, RankEnd& end);

}  // namespace rueda::launcher
