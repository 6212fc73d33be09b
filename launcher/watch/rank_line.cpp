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

/// Sends the first message, which carries the descriptor of the file in which the program counts its training steps.
Status send_step_file(int socket, int file) {
    std::string notification = base::encode({base::LauncherNotification::Kind::steps, 0, ""});
    iovec part{notification.data(), notification.size()};
    return base::send_with_descriptors(socket, {&part, 1}, {&file, 1}) < 0
               ? system_failure(ErrorCode::resource_exhausted, "sendmsg")
               : Status();
}

}  // namespace

Status RankLine::open() {
    std::array<int, 2> ends{};
    // A SOCK_SEQPACKET keeps the boundaries of messages. Close-on-exec keeps other children from inheriting the socket.
    // start_child() clears the flag in the child that needs the socket.
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

void RankLine::notify(std::string_view notification) const {
    if (own_end_.is_open()) {
        // The send may fail because the program has ended, or because the socket is full of notifications that the
        // program has not read. In both cases the lost notification does no harm.
        static_cast<void>(
            ::send(own_end_.value(), notification.data(), notification.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
    }
}

void RankLine::receive() {
    using Kind = base::LauncherNotification::Kind;
    std::array<char, base::kMostLauncherNotification + 1> buffer;
    while (own_end_.is_open()) {
        const ssize_t got = ::recv(own_end_.value(), buffer.data(), buffer.size(), MSG_DONTWAIT);
        // If a program ends without having read all notifications, the connection is reset. The kernel reports this
        // error once, and then delivers the messages of the program.
        if (got < 0 && (errno == EINTR || errno == ECONNRESET)) {
            continue;
        }
        if (got == 0) {
            has_ended_ = true;
        }
        if (got <= 0) {
            break;
        }
        const Result<base::LauncherNotification> notification =
            base::parse_launcher_notification({buffer.data(), static_cast<std::size_t>(got)});
        if (notification.is_ok() && notification.value().kind == Kind::aborted) {
            abort_reason_ = notification.value().text;
        } else if (notification.is_ok() && notification.value().kind == Kind::waits) {
            abort_reason_.clear();
            waits_ = true;
        }
    }
}

std::string RankLine::take_abort_reason() {
    receive();
    return std::exchange(abort_reason_, "");
}

bool RankLine::take_wait() {
    receive();
    return std::exchange(waits_, false);
}

}  // namespace rueda::launcher
