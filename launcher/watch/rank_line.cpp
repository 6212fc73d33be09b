// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/watch/rank_line.hpp"

#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/launcher_notification.hpp"
#include "base/system/descriptor_message.hpp"

namespace rueda::launcher {

namespace {

/// The first message: with the descriptor of the file in which the program counts its steps.
Status send_step_file(int socket, int file) {
    std::string word = base::encode({base::LauncherNotification::Kind::steps, 0, ""});
    iovec part{word.data(), word.size()};
    return base::send_with_descriptors(socket, {&part, 1}, {&file, 1}) < 0
               ? system_failure(ErrorCode::resource_exhausted, "sendmsg")
               : Status();
}

}  // namespace

Status RankLine::open() {
    std::array<int, 2> ends{};
    // Whole messages; close-on-exec, so that no other child inherits an end: start_child() lifts that in the program.
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        return system_failure(ErrorCode::resource_exhausted, "socketpair");
    }
    own_end_.reset(ends[0]);
    child_end_.reset(ends[1]);
    Result<base::UniqueFd> steps = base::make_step_file();
    RUEDA_RETURN_IF_FAILED(steps.status());
    steps_ = std::move(steps).value();
    return send_step_file(own_end_.value(), steps_.value());
}

std::string RankLine::address(int rank, int ranks) const {
    struct stat facts {};
    ::fstat(child_end_.value(), &facts);
    return base::format_launcher_address({child_end_.value(), facts.st_ino, rank, ranks});
}

void RankLine::tell(std::string_view encoded_word) const {
    if (own_end_.is_open()) {
        // A program that has ended, or has not read the words before, goes without this one.
        static_cast<void>(
            ::send(own_end_.value(), encoded_word.data(), encoded_word.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
    }
}

std::string RankLine::take_abort_reason() const {
    std::string reason;
    std::array<char, base::kMostLauncherNotification + 1> buffer;
    while (own_end_.is_open()) {
        const ssize_t got = ::recv(own_end_.value(), buffer.data(), buffer.size(), MSG_DONTWAIT);
        // A program that ends with words unread resets the connection. That is reported once, before what it has said.
        if (got < 0 && (errno == EINTR || errno == ECONNRESET)) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        const Result<base::LauncherNotification> word =
            base::parse_launcher_notification({buffer.data(), static_cast<std::size_t>(got)});
        if (word.is_ok() && word.value().kind == base::LauncherNotification::Kind::aborted) {
            reason = word.value().text;
        }
    }
    return reason;
}

}  // namespace rueda::launcher
