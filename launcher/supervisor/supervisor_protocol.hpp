// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/watch/rank_end.hpp"

namespace rueda::launcher {

/// What ruedarun and a supervisor under mpirun send to each other, in frames (frame_link.hpp). Each line below names
/// the sender and says what the frame's value and payload mean.
enum class FrameKind : std::uint32_t {
    hello = 1,         ///< supervisor: the value is its rank, the payload a Greeting
    welcome = 2,       ///< ruedarun: start the program as one of `value` ranks, with the variables of the payload
                       ///< (torch_variables.hpp)
    started = 3,       ///< supervisor: the value is the program's pid
    start_failed = 4,  ///< supervisor: the value is the errno; this supervisor reports nothing more
    ended = 5,         ///< supervisor: the value is the program's wait status, the payload the rest of its RankEnd
    deliver = 6,       ///< ruedarun: send the signal `value` to the program
    leave = 7,         ///< ruedarun: all ranks have ended; exit
    rank_ended = 8,    ///< ruedarun: another rank has ended; the payload is a notification for the program
                       ///< (base/launcher_notification.hpp)
    output = 9,        ///< supervisor: what the program wrote; the value is kStandardOutput or kStandardError
    more_output = 10,  ///< ruedarun: `value` more bytes of output may be sent
    stop_output = 11,  ///< ruedarun: close the stream `value`, because it has no reader any more
    descriptors = 12,  ///< ruedarun on the same host, before `welcome`: the program's standard output and error; the
                       ///< supervisor then sends no `output`
};

/// How much output a supervisor may send before it receives `more_output`. ruedarun reads everything that arrives, so
/// this limit keeps a report from waiting behind output that ruedarun cannot print yet.
inline constexpr std::int32_t kOutputCredit = 128 << 10;

inline constexpr std::int32_t kStandardOutput = 1;
inline constexpr std::int32_t kStandardError = 2;

/// The payload of `hello`.
struct Greeting {
    std::string secret;             ///< proves that ruedarun's own mpirun started the supervisor
    std::string host;               ///< the name of the supervisor's host, for messages
    std::uint16_t master_port = 0;  ///< a port that rank 0's supervisor holds for its program; 0: none
    std::string host_key;           ///< equal for ranks of one host (network.hpp)
};

[[nodiscard]] std::string encode_greeting(const Greeting& greeting);
/// Accepts any text. What is missing is empty. The name of the host has no characters that could harm a terminal.
[[nodiscard]] Greeting parse_greeting(std::string_view text);

/// The payload of `ended`: by_launcher, steps, oom_kills and abort_reason of `end`.
[[nodiscard]] std::string encode_report(const RankEnd& end);
/// Writes these four members of `end`. Lines that are not understood are passed over.
void read_report(std::string_view text, RankEnd& end);

}  // namespace rueda::launcher
