// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace rueda::base {

/// The notifications that ruedarun and the ranks that it started send to each other, one per message. Both directions
/// use one socket, which a rank inherits (docs/design/failure.md, "Notifications from the launcher").
struct LauncherNotification {
    enum class Kind : std::uint32_t {
        ended_well = 1,  ///< to a rank: another rank has ended, with exit status 0
        failed = 2,      ///< to a rank: another rank has ended in any other way
        aborted = 3,     ///< from a rank: why the job ended; if the rank ends now, this is the reason
        steps = 4,       ///< to a rank: carries the file in which to count steps (base/shared_memory/step_page.hpp)
    };

    Kind kind = Kind::failed;
    std::int32_t rank = 0;  ///< the rank that the notification is about
    std::string text;       ///< "rank 3 on b (pid 4711) was killed by signal 9 (Killed)"
};

/// The text is a line for people, and an error's text may be 704 bytes long.
inline constexpr std::size_t kMostLauncherText = 704;
inline constexpr std::size_t kLauncherHeaderBytes = 16;
inline constexpr std::size_t kMostLauncherNotification = kLauncherHeaderBytes + kMostLauncherText;

/// Texts that are too long are cut, and control characters become '?'.
[[nodiscard]] std::string encode(const LauncherNotification& word);
/// Reads bytes of another process. Internal if they are not a notification.
[[nodiscard]] Result<LauncherNotification> parse_launcher_notification(std::string_view bytes);

/// Every reason of an abort that a stall caused contains this text. ruedarun finds it in the reasons that the ranks
/// give, because a reason passes through other hosts as text.
inline constexpr std::string_view kReasonOfStall = "more than RUEDA_STALL_SHUTDOWN_TIME_SECONDS (";
/// Whether a stall ended the job that was aborted for this reason.
[[nodiscard]] inline bool is_reason_of_stall(std::string_view reason) {
    return reason.find(kReasonOfStall) != std::string_view::npos;
}

/// The environment variable that describes the socket.
inline constexpr const char* kLauncherVariable = "RUEDA_LAUNCHER_FD";

/// The value of this variable. A descriptor's number alone proves nothing: a program in between may have closed the
/// descriptor, and the number may belong to another file now. So the inode identifies the socket; rank and number of
/// ranks identify the process that it is for.
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
