// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/watch/rank_end.hpp"

namespace rueda::launcher {

/// The kinds of frames (messages over a FrameLink) between ruedarun and a supervisor, the parent of a rank under
/// mpirun or under the agent of a host. For each kind, the comment names the sender and says what the frame's value and
/// payload mean.
enum class FrameKind : std::uint32_t {
    hello = 1,         ///< from the supervisor; value: its rank, payload: a Greeting
    welcome = 2,       ///< from ruedarun: start the program as one of `value` ranks; payload: its variables
                       ///< (torch_variables.hpp)
    started = 3,       ///< from the supervisor; value: the program's pid
    start_failed = 4,  ///< from the supervisor, as its last frame; value: the errno of the failed start
    ended = 5,         ///< from the supervisor; value: the program's wait status, payload: from encode_report()
    deliver = 6,       ///< from ruedarun: send the signal `value` to the program
    leave = 7,         ///< from ruedarun: all ranks have ended, so the supervisor must exit
    notification = 8,  ///< from ruedarun; payload: a notification for the program (base/launcher_notification.hpp)
    output = 9,        ///< from the supervisor: output of the program; value: kStandardOutput or kStandardError
    more_output = 10,  ///< from ruedarun: the supervisor may send `value` more bytes of output
    stop_output = 11,  ///< from ruedarun: close the stream `value`, because it has no reader any more
    /// from a ruedarun on the same host, before `welcome`: descriptors for the program's standard output and error. The
    /// program writes to them directly, so the supervisor sends no `output`.
    descriptors = 12,
    probe_addresses = 13,    ///< from ruedarun, before `welcome`: try these addresses of rank 0's host; payload: from
                             ///< encode_endpoints() (reachability.hpp)
    reached_addresses = 14,  ///< from the supervisor, as the answer to `probe_addresses`; payload: the addresses that
                             ///< the supervisor has reached
    waits = 15,      ///< from the supervisor of a worker of an elastic job: the program waits for a place in the
                     ///< next generation; payload: a Greeting, whose ports are reserved for this generation
    job_hosts = 16,  ///< from ruedarun, to the supervisor of a worker of an elastic job; payload: the text for
                     ///< the JobNote of the worker's generation, or "" if this generation is on one host
};

/// How many bytes of output a supervisor (the parent of a rank) may send before it gets `more_output`. ruedarun reads
/// frames in order. Without this limit, a frame that reports the end of a rank could wait behind much output that
/// ruedarun cannot print yet. The limit is smaller than the receive window with which a TCP connection begins. So while
/// ruedarun is suspended, its kernel can accept everything that a supervisor sends, and the connection stays open.
inline constexpr std::int32_t kOutputCredit = 48 << 10;

inline constexpr std::int32_t kStandardOutput = 1;
inline constexpr std::int32_t kStandardError = 2;

/// The payload of a `hello` frame, and of a `waits` frame.
struct Greeting {
    std::string host;               ///< the name of the supervisor's host, for messages
    std::uint16_t master_port = 0;  ///< a port that rank 0's supervisor has reserved for its program; 0: none
    std::string host_key;           ///< the host's key (network.hpp), which is equal for all ranks of one host
    std::string gpus;  ///< the GPUs that CUDA shows on this host (rank_gpus.hpp); empty if they are not divided
    /// The addresses at which rank 0's supervisor can be reached, from encode_endpoints() (reachability.hpp). Empty for
    /// other ranks, and if all ranks are on one host.
    std::string endpoints;
    std::string rendezvous;  ///< Where the ranks meet if this rank is rank 0. Rank 0's supervisor sends this in a job
                             ///< without MPI. In an elastic job, the supervisor of each worker that waits sends it.
};

[[nodiscard]] std::string encode_greeting(const Greeting& greeting);
/// Parses a greeting. Accepts any text; parts that are missing in the text become empty. Characters in the host's name
/// that could affect a terminal are replaced.
[[nodiscard]] Greeting parse_greeting(std::string_view text);

/// Encodes the fields by_launcher, steps, oom_kills and abort_reason of `end` as the payload of an `ended` frame.
[[nodiscard]] std::string encode_report(const RankEnd& end);
/// Sets the fields by_launcher, steps, oom_kills and abort_reason of `end` from the payload of an `ended` frame.
/// Unknown lines are ignored.
void read_report(std::string_view text, RankEnd& end);

}  // namespace rueda::launcher
