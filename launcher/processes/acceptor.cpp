// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/processes/acceptor.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace rueda::launcher {
namespace {

constexpr std::chrono::milliseconds kFirstPause{10};
/// The longest pause after a failed accept. Supervisors wait much longer than this for an answer, so the pause does no
/// harm.
constexpr std::chrono::milliseconds kLongestPause{1000};

/// Whether accept4() failed because descriptors or memory are used up. In that case, ruedarun can only wait until some
/// of them are released.
bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

std::string what_is_short(int error) {
    rlimit limit{};
    if (error == EMFILE && ::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        return fmt::format("; this process may open {} files: raise the limit (ulimit -n), or start fewer ranks",
                           limit.rlim_cur);
    }
    return error == ENFILE ? "; the whole system has too many open files (sysctl fs.file-max)" : "";
}

}  // namespace

Acceptor::Acceptor(std::vector<base::UniqueFd> listeners, OnAccepted on_accepted, Say say)
    : listeners_(std::move(listeners)), on_accepted_(std::move(on_accepted)), say_(std::move(say)) {}

void Acceptor::add_to(base::PollSet& set) {
    if (std::chrono::steady_clock::now() < paused_until_) {
        set.wake_at(paused_until_);
        return;
    }
    for (const base::UniqueFd& listener : listeners_) {
        set.add(listener.value(), POLLIN, [this, fd = listener.value()] { accept_one(fd); });
    }
}

void Acceptor::accept_one(int listener) {
    base::UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.is_open()) {
        pause_ = std::chrono::milliseconds(0);
        on_accepted_(std::move(socket));
    } else if (is_shortage(errno)) {
        pause(errno);
    }
}

void Acceptor::pause(int error) {
    if (pause_.count() == 0) {
        say_(
            fmt::format("a connection of a rank cannot be accepted: accept4 failed: {} (errno {}){}; "
                        "ruedarun keeps trying",
                        std::generic_category().message(error), error, what_is_short(error)));
    }
    pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
    paused_until_ = std::chrono::steady_clock::now() + pause_;
}

}  // namespace rueda::launcher
