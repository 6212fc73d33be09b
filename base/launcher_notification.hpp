// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace rueda::base {

/// A message between ruedarun and a rank that it started. Each message contains one notification. Messages in both
/// directions go over one socket, which the rank inherits (docs/design/failure.md, "Notifications from the launcher").
struct LauncherNotification {
    enum class Kind : std::uint32_t {
        ended_well = 1,  ///< to a rank: another rank ended with exit status 0
        failed = 2,      ///< to a rank: another rank ended in any other way
        aborted = 3,     ///< from a rank: the reason why the job was aborted; if the rank ends later, ruedarun reports
                         ///< this reason
        steps = 4,       ///< to a rank: carries the descriptor of the file for the rank's current training step
                         ///< (base/shared_memory/step_page.hpp)
    };

    Kind kind = Kind::failed;
    std::int32_t rank = 0;  ///< the rank that the notification is about
    std::string text;       ///< for example "rank 3 on b (pid 4711) was killed by signal 9 (Killed)"
};

/// The maximum length in bytes of a notification's text, which is one line for people to read. It is also the maximum
/// length of an error's text (AbortBlock).
inline constexpr std::size_t kMostLauncherText = 704;
inline constexpr std::size_t kLauncherHeaderBytes = 16;
inline constexpr std::size_t kMostLauncherNotification = kLauncherHeaderBytes + kMostLauncherText;

/// Encodes a notification. Shortens a text that is too long, and replaces control characters by '?'.
[[nodiscard]] std::string encode(const LauncherNotification& notification);
/// Decodes bytes from another process. Fails with Internal if the bytes are not a notification.
[[nodiscard]] Result<LauncherNotification> parse_launcher_notification(std::string_view bytes);

/// If a stall caused an abort, the reason of the abort contains this text. ruedarun searches for the text in the
/// reasons that ranks report. A separate flag is not possible, because the reason of an abort is sent to other hosts
/// only as a text.
inline constexpr std::string_view kReasonOfStall = "more than RUEDA_STALL_SHUTDOWN_TIME_SECONDS (";
/// Whether `reason` says that a stall ended the job.
[[nodiscard]] inline bool is_reason_of_stall(std::string_view reason) {
    return reason.find(kReasonOfStall) != std::string_view::npos;
}

/// The environment variable that says which descriptor is the rank's end of the socket, in the form of LauncherAddress.
inline constexpr const char* kLauncherVariable = "RUEDA_LAUNCHER_FD";

/// The value of RUEDA_LAUNCHER_FD. The number of a descriptor alone is not enough: a program between ruedarun and the
/// rank may have closed the descriptor, and the number may now belong to another file. The inode therefore identifies
/// the socket. The rank and the number of ranks identify the process that the socket is for.
struct LauncherAddress {
    int fd = -1;
    std::uint64_t inode = 0;
    std::int32_t rank = 0;
    std::int32_t ranks = 0;
};

/// Returns descriptor, inode, rank and size, for example "7:123456:3:8".
[[nodiscard]] std::string format_launcher_address(const LauncherAddress& address);
[[nodiscard]] Result<LauncherAddress> parse_launcher_address(std::string_view text);

}  // namespace rueda::base
