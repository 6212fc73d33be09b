// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace rueda::base {

/// What ruedarun and the ranks it has started tell each other, one message each. Both directions go over one socket,
/// which a rank inherits (docs/design/failure.md, "The launcher's word").
struct LauncherNotification {
    enum class Kind : std::uint32_t {
        ended_well = 1,  ///< to a rank: another one has ended, with exit status 0
        failed = 2,      ///< to a rank: another one has ended in any other way
        aborted = 3,     ///< of a rank: if it ends now, then because of this; why the job ended
        steps = 4,  ///< to a rank: with it comes the file in which to count steps (base/shared_memory/step_page.hpp)
    };

    Kind kind = Kind::failed;
    std::int32_t rank = 0;  ///< whom it is about
    std::string text;       ///< "rank 3 on b (pid 4711) was killed by signal 9 (Killed)"
};

/// A line for people, and an error's text may be 704 bytes long.
inline constexpr std::size_t kMostLauncherText = 704;
inline constexpr std::size_t kLauncherHeaderBytes = 16;
inline constexpr std::size_t kMostLauncherNotification = kLauncherHeaderBytes + kMostLauncherText;

/// Longer texts are cut, control characters become '?'.
[[nodiscard]] std::string encode(const LauncherNotification& word);
/// Bytes of another process. Internal where they are no word.
[[nodiscard]] Result<LauncherNotification> parse_launcher_notification(std::string_view bytes);

/// The variable that says where the socket is.
inline constexpr const char* kLauncherVariable = "RUEDA_LAUNCHER_FD";

/// Its value. A descriptor's number alone proves nothing: a program in between may have closed it, and the number be
/// another file's by now. So the socket is told by its inode, and whom it is for by rank and number of ranks.
struct LauncherAddress {
    int fd = -1;
    std::uint64_t inode = 0;
    std::int32_t rank = 0;
    std::int32_t ranks = 0;
};

/// "7:123456:3:8"
[[nodiscard]] std::string format_launcher_address(const LauncherAddress& address);
[[nodiscard]] Result<LauncherAddress> parse_launcher_address(std::string_view text);

}  // namespace rueda::base
