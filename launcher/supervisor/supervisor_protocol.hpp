// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::launcher {

/// What ruedarun and its supervisors under mpirun say to each other: on one host over a Unix socket that keeps messages
/// whole, between hosts over TCP (frame_link.hpp).
enum class SupervisorWord : std::uint32_t {
    hello = 1,              ///< supervisor: value is my rank
    welcome = 2,            ///< ruedarun: start the program, one of `value` ranks; the text has variables for it
                            ///< (torch_variables.hpp); on one host comes with its standard output and error
    started = 3,            ///< supervisor: value is the program's pid
    start_failed = 4,       ///< supervisor: value is the errno; nothing more will come
    ended = 5,              ///< supervisor: value is the program's wait status
    ended_by_launcher = 8,  ///< the same, after mpirun had sent a signal to end it
    deliver = 6,            ///< ruedarun: value is a signal for the program
    leave = 7,              ///< ruedarun: all ranks have ended, go
    output = 9,             ///< supervisor on another host: what its rank wrote; value is kStandardOutput or …Error
    stop_output = 10,       ///< ruedarun: nobody reads that any more; value as above
    more_output = 11,       ///< ruedarun: so many more bytes of output may be sent
    rank_ended = 12,  ///< ruedarun: rank `value` has ended; the text is a word for the program (launcher_word.hpp)
    oom_kills = 14,   ///< supervisor, before `ended`: the kernel ended `value` processes for want of memory while the
                      ///< program ran; the text is the file that counts them
    steps = 15,       ///< supervisor, before `ended`: the text has the first and the last training step of the program
    aborted = 13,     ///< supervisor, before `ended`: the text is why, as the program has said, the job was aborted
};

/// How much output a supervisor may send before it hears `more_output`. ruedarun reads whatever comes, so that no
/// report stands behind output that its own reader does not take.
inline constexpr std::int32_t kOutputCredit = 128 << 10;

inline constexpr std::int32_t kStandardOutput = 1;
inline constexpr std::int32_t kStandardError = 2;

struct SupervisorMessage {
    static constexpr std::uint32_t kMagic = 0x72756501;  // "rue", version 1

    std::uint32_t magic = kMagic;
    SupervisorWord word = SupervisorWord::hello;
    std::int32_t value = 0;
};
static_assert(sizeof(SupervisorMessage) == 12 && std::is_trivially_copyable_v<SupervisorMessage>);

/// Listens at "@name", an abstract Unix socket: it has no file that could be left behind.
[[nodiscard]] Result<base::UniqueFd> listen_for_supervisors(const std::string& name);
[[nodiscard]] Result<base::UniqueFd> connect_to_ruedarun(const std::string& name);

/// The other end is a process of our own user (SO_PEERCRED).
[[nodiscard]] bool peer_is_same_user(int socket);

/// What may follow a message, in the same datagram.
inline constexpr std::size_t kMostMessageText = 1024;

/// Does not block: the few messages of a job fit the socket's buffer. A text is cut after kMostMessageText.
[[nodiscard]] Status send_message(int socket, SupervisorWord word, std::int32_t value, std::span<const int> fds = {},
                                  std::string_view text = {});

struct ReceivedMessage {
    SupervisorMessage message;
    std::string text;
    std::vector<base::UniqueFd> fds;
};

enum class Reception { message, nothing_yet, closed };

/// Does not block. What is not one of our messages counts as a closed connection.
[[nodiscard]] Reception receive_message(int socket, ReceivedMessage& received);

}  // namespace rueda::launcher
