// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace rueda::base {

/// A message between ruedarun and a rank that it started. Each message contains one notification. Messages in both
/// directions go over one socket, which the rank inherits (docs/design/failure.md, "Notifications from the launcher").
struct LauncherNotification {
    enum class Kind : std::uint32_t {
        ended_well = 1,  ///< tells a rank that another rank ended with exit status 0
        failed = 2,      ///< tells a rank that another rank ended with an exit status that is not 0, or by a signal
        aborted = 3,     ///< tells ruedarun why the job was aborted; if the sending rank ends later, ruedarun reports
                         ///< this reason
        steps = 4,       ///< gives a rank the descriptor of the file into which it writes its current training step
                         ///< (base/shared_memory/step_page.hpp)
        elastic = 5,     ///< tells a worker of an elastic job that init() must wait until the worker gets a rank in
                         ///< the job (docs/design/0028)
        waits = 6,       ///< tells ruedarun that a worker of an elastic job has no rank, and waits for a rank in the
                         ///< next generation
        place = 7,       ///< tells a waiting worker its rank in the next generation; the text has the environment
                         ///< variables for this rank
        slots_changed = 8,  ///< tells a worker that the job's slots have changed; `rank` has bits of SlotChange
        dismissed = 9,      ///< tells a waiting worker that it will get no rank; the text says why
    };

    /// The bits of a notification about slots. Horovod's State.on_hosts_updated() uses the same numbers.
    enum SlotChange : std::int32_t { kSlotsAdded = 1, kSlotsRemoved = 2 };

    Kind kind = Kind::failed;
    std::int32_t rank = 0;  ///< the rank that the notification is about
    std::string text;       ///< for example "rank 3 on b (pid 4711) was killed by signal 9 (Killed)"
};

/// The maximum length in bytes of a notification's text, which is one line for people to read. It is also the maximum
/// length of an error's text (AbortBlock).
inline constexpr std::size_t kMostLauncherText = 704;
inline constexpr std::size_t kLauncherHeaderBytes = 16;
/// The maximum length in bytes of the text of a notification `place`. This text may be longer than those of other
/// kinds, because it may contain all addresses of a host.
inline constexpr std::size_t kMostPlaceText = 2048;
inline constexpr std::size_t kMostLauncherNotification = kLauncherHeaderBytes + kMostPlaceText;

/// Encodes a notification. Shortens a text that is too long for its kind, and replaces control characters by '?'.
[[nodiscard]] std::string encode(const LauncherNotification& notification);
/// Decodes bytes from another process. Fails with Internal if the bytes are not a notification.
[[nodiscard]] Result<LauncherNotification> parse_launcher_notification(std::string_view bytes);

/// An environment variable in a notification `place`, for example RUEDA_RANK=3.
struct PlaceVariable {
    std::string name;
    std::string value;
};

/// The place of a worker in a generation of an elastic job: everything that init() needs to join this generation.
struct LauncherPlace {
    std::int32_t rank = 0;
    std::int32_t ranks = 0;
    std::vector<PlaceVariable> variables;  ///< environment variables; RUEDA_RANK and RUEDA_SIZE are among them
};

/// Writes the variables as the text of a notification of the kind `place`: NAME=VALUE, separated by blanks. Fails with
/// ResourceExhausted if the text is too long for a notification.
[[nodiscard]] Result<std::string> encode_place(const std::vector<PlaceVariable>& variables);
/// Parses a notification of the kind `place`. Fails with Internal if the notification is damaged, if RUEDA_RANK is not
/// the rank of the notification, or if RUEDA_SIZE is not a number of ranks.
[[nodiscard]] Result<LauncherPlace> parse_place(const LauncherNotification& notification);

/// If a stall caused an abort, the reason of the abort contains this text. ruedarun searches for the text in the
/// reasons that ranks report. A separate flag is not possible, because the reason of an abort is sent to other hosts
/// only as a text.
inline constexpr std::string_view kReasonOfStall = "more than RUEDA_STALL_SHUTDOWN_TIME_SECONDS (";
/// Whether `reason` says that a stall ended the job.
[[nodiscard]] inline bool is_reason_of_stall(std::string_view reason) {
    return reason.find(kReasonOfStall) != std::string_view::npos;
}

/// The environment variable that tells a rank which descriptor is its end of the socket. The value has the form of
/// LauncherAddress.
inline constexpr const char* kLauncherVariable = "RUEDA_LAUNCHER_FD";

/// The value of RUEDA_LAUNCHER_FD. The number of a descriptor alone is not enough. A program between ruedarun and the
/// rank may have closed the descriptor, and its number may now belong to another file. The inode therefore identifies
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
