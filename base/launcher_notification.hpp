// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace rueda::base {

/// A message between ruedarun and a rank that it started. Each message carries one notification. Both directions use
/// one socket, which the rank inherits (docs/design/failure.md, "Notifications from the launcher").
struct LauncherNotification {
    enum class Kind : std::uint32_t {
        ended_well = 1,  ///< to a rank: another rank has ended with exit status 0
        failed = 2,      ///< to a rank: another rank has ended in any other way
        aborted = 3,     ///< from a rank: why the job ended; if the rank ends after this, the launcher reports this
                         ///< reason
        steps = 4,       ///< to a rank: carries the file in which the rank counts its steps
                         ///< (base/shared_memory/step_page.hpp)
    };

    Kind kind = Kind::failed;
    std::int32_t rank = 0;  ///< the rank that the notification is about
    std::string text;       ///< for example "rank 3 on b (pid 4711) was killed by signal 9 (Killed)"
};

/// The longest text of a notification. The text is one line for people to read; the text of an error has at most 704
/// bytes.
inline constexpr std::size_t kMostLauncherText = 704;
inline constexpr std::size_t kLauncherHeaderBytes = 16;
inline constexpr std::size_t kMostLauncherNotification = kLauncherHeaderBytes + kMostLauncherText;

/// Encodes a notification. A text that is too long is cut, and control characters become '?'.
[[nodiscard]] std::string encode(const LauncherNotification& notification);
/// Decodes bytes from another process. Fails with Internal if the bytes are not a notification.
[[nodiscard]] Result<LauncherNotification> parse_launcher_notification(std::string_view bytes);

/// Every reason of an abort that a stall caused contains this text. ruedarun finds it in the reasons that the ranks
/// give, because a reason passes through other hosts as text.
inline constexpr std::string_view kReasonOfStall = "more than RUEDA_STALL_SHUTDOWN_TIME_SECONDS (";
/// Whether a stall ended the job that was aborted for this reason.
[[nodiscard]] inline bool is_reason_of_stall(std::string_view reason) {
    return reason.find(kReasonOfStall) != std::string_view::npos;
}

/// The name of the environment variable that tells a rank about the socket.
inline constexpr const char* kLauncherVariable = "RUEDA_LAUNCHER_FD";

/// The value of that variable. The number of a descriptor alone proves nothing: a program that was started in between
/// may have closed the descriptor, and the number may now belong to another file. So the value contains the inode,
/// which identifies the socket. It also contains the rank and the number of ranks, which identify the process that the
/// socket is for.
struct LauncherAddress {
    int fd = -1;
    std::uint64_t inode = 0;
    std::int32_t rank = 0;
    std::int32_t ranks = 0;
};

/// The format is "7:123456:3:8".
[[nodiscard]] std::string format_launcher_address(const LauncherAddress& address);
[[nodiscard]] Result<LauncherAddress> parse_launcher_address(std::string_view text);

}  // namespace rueda::base
