// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/processes/signal_inbox.hpp"

#include <unistd.h>

namespace rueda::launcher {

namespace {

bool is_ignored(int signal_number) {
    struct sigaction action {};
    return ::sigaction(signal_number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

SignalInbox::~SignalInbox() {
    if (fd_.is_open()) {
        ::pthread_sigmask(SIG_SETMASK, &original_mask_, nullptr);
    }
}

Status SignalInbox::open(std::initializer_list<int> signals) {
    sigset_t wanted;
    sigemptyset(&wanted);
    for (const int number : signals) {
        if (number == SIGCHLD || !is_ignored(number)) {
            sigaddset(&wanted, number);
        }
    }
    // If the parent process ignores SIGCHLD, this process inherits this setting. The next lines restore the default.
    // Otherwise the kernel would discard the exit status of ranks, and ruedarun could not find out how they ended.
    ::signal(SIGCHLD, SIG_DFL);
    if (const int error = ::pthread_sigmask(SIG_BLOCK, &wanted, &original_mask_); error != 0) {
        return system_failure(ErrorCode::internal, "pthread_sigmask", error);
    }
    fd_.reset(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd_.is_open()) {
        return system_failure(ErrorCode::internal, "signalfd");
    }
    return {};
}

std::optional<signalfd_siginfo> SignalInbox::take() {
    signalfd_siginfo info{};
    if (::read(fd_.value(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) {
        return std::nullopt;
    }
    return info;
}

}  // namespace rueda::launcher
