// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/termination/termination.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/system/thread_signals.hpp"
#include "base/text.hpp"
#include "core/diagnostics/liveness.hpp"
#include "core/termination/signal_text.hpp"

namespace rueda::core {
namespace {

constexpr std::string_view kEndedBySignal = "ended by SIGTERM";

/// What the handler needs; prepared in advance, because a handler must not allocate or format.
struct Watch {
    struct Member {
        std::uint32_t index = 0;
        pid_t pid = 0;
        std::string died;  ///< for example "rank 1 (pid 4711) died: "
    };
    pid_t pid = 0;
    std::uint32_t members = 0;
    std::uint32_t own = 0;
    base::ControlBlock* control = nullptr;
    bool prints = false;
    std::string prefix;
    std::vector<Member> others;
};

/// The watch of the current job. Null if no ranks are watched. The thread that fills the watch then stores the pointer
/// with release, and the handler loads it with acquire.
std::atomic<const Watch*> current{nullptr};
/// The previous handler. This file's handler reads it, so it is written before this file's handler is installed.
struct sigaction before {};
bool installed = false;  // true if this file's handler was installed, and was not removed since then

/// Whether the process has ended. The pidfd of a process becomes readable before its parent can learn of the end, and
/// so before the parent sends SIGTERM.
bool has_ended(pid_t pid) {
    const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (descriptor < 0) {
        return errno == ESRCH || (kill(pid, 0) != 0 && errno == ESRCH);
    }
    pollfd request = {descriptor, POLLIN, 0};
    const bool ended = ::poll(&request, 1, 0) == 1 && (request.revents & POLLIN) != 0;
    close(descriptor);
    return ended;
}

/// Whether the rank has died. As in class Liveness, a rank that ends after it has left the job has not died.
bool has_died(const Watch& watch, const Watch::Member& other) {
    const auto state =
        static_cast<base::RankState>(watch.control->ranks[other.index].state.load(std::memory_order_acquire));
    return (state == base::RankState::running || state == base::RankState::shutting_down) && has_ended(other.pid);
}

/// Marks all dead ranks as dead, because other ranks would otherwise wait until a dead rank has left its batch. Then
/// wakes all ranks, so that they see the abort. Engine::report_death() does the same.
void mark_the_dead_and_ring(const Watch& watch) {
    for (const Watch::Member& other : watch.others) {
        if (has_died(watch, other)) {
            watch.control->ranks[other.index].state.store(static_cast<std::uint32_t>(base::RankState::dead),
                                                          std::memory_order_release);
        }
    }
    for (std::uint32_t member = 0; member < watch.members; ++member) {
        watch.control->ranks[member].attention.ring_all();
    }
}

/// Raises the abort for the first death that the launcher did not cause, and prints the reason. Does nothing if the job
/// was aborted before.
void say_who_died(const Watch& watch) {
    for (const Watch::Member& other : watch.others) {
        if (!has_died(watch, other)) {
            continue;
        }
        const base::RankBlock& block = watch.control->ranks[other.index];
        decltype(block.end_reason)::Copy copy;
        const std::string_view end_reason = block.end_reason.read(copy);
        if (end_reason == kEndedBySignal) {
            continue;
        }
        SignalText line;
        line.add(watch.prefix);
        line.add(other.died);
        line.add_foreign(end_reason.empty() ? kNoExitRecord : end_reason);
        // The stores are lock-free, so a handler may make them. If several threads raise an abort, only the first of
        // them prints its reason.
        const bool first = watch.control->abort.raise(ErrorCode::aborted, line.view().substr(watch.prefix.size()));
        if (first && watch.prints) {
            line.add("\n");
            const base::SigpipeBlocked without_sigpipe;
            static_cast<void>(!write(base::Logger::kStandardError, line.view().data(), line.view().size()));
        }
        if (first) {
            mark_the_dead_and_ring(watch);
        }
        return;
    }
}

/// Does what would happen at this signal if this file's handler were not installed.
void pass_on(int number, siginfo_t* info, void* context) {
    if ((before.sa_flags & SA_SIGINFO) != 0) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler != SIG_DFL) {
        before.sa_handler(number);
    } else {
        // The signal that raise() sends is blocked until this handler returns. The default action then ends the process
        // by this signal, as the parent process expects.
        struct sigaction usual {};
        usual.sa_handler = SIG_DFL;
        sigaction(number, &usual, nullptr);
        raise(number);
    }
}

bool ends_by_default() { return (before.sa_flags & SA_SIGINFO) == 0 && before.sa_handler == SIG_DFL; }

void on_termination(int number, siginfo_t* info, void* context) {
    const int saved_errno = errno;
    const Watch* const watch = current.load(std::memory_order_acquire);
    // A forked child is not a rank, and has no arena.
    if (watch != nullptr && watch->pid == getpid()) {
        say_who_died(*watch);
        if (ends_by_default()) {
            watch->control->ranks[watch->own].end_reason.write(kEndedBySignal);
        }
    }
    errno = saved_errno;
    pass_on(number, info, context);
}

bool is_ours(const struct sigaction& action) {
    return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &on_termination;
}

}  // namespace

void watch_termination(base::ControlBlock& control, std::uint32_t members, std::uint32_t own,
                       const base::Logger& logger, std::string_view host) {
    // One watch per job; never destroyed, because a handler in another thread may be reading it.
    static auto* const kept = new std::vector<std::unique_ptr<Watch>>;
    Watch* const watch = kept->emplace_back(std::make_unique<Watch>()).get();
    watch->pid = getpid();
    watch->members = members;
    watch->own = own;
    watch->control = &control;
    watch->prints = logger.prints(base::LogLevel::error);
    watch->prefix =
        fmt::format("[E rueda] [rank {}]: ", control.ranks[own].global_rank.load(std::memory_order_relaxed));
    for (std::uint32_t index = 0; index < members; ++index) {
        const auto pid = control.ranks[index].pid.load(std::memory_order_acquire);
        if (pid > 0 && pid != watch->pid) {
            const auto rank = control.ranks[index].global_rank.load(std::memory_order_relaxed);
            watch->others.push_back({index, pid, name_of_rank(rank, host, pid) + " died: "});
        }
    }
    struct sigaction found {};
    sigaction(SIGTERM, nullptr, &found);
    const bool ignored = (found.sa_flags & SA_SIGINFO) == 0 && found.sa_handler == SIG_IGN;
    current.store(watch, std::memory_order_release);
    // If this file's handler was installed before, other code may have installed its own handler later, which calls
    // this file's handler. If this file's handler were installed a second time, the two handlers would call each other
    // for ever.
    if (installed || is_ours(found) || ignored) {
        return;
    }
    before = found;
    // keeps the settings of the program's handler: its stack, its signal mask, and whether system calls are restarted
    struct sigaction ours = found;
    ours.sa_flags |= SA_SIGINFO;
    if (ends_by_default()) {
        ours.sa_flags |= SA_RESTART | SA_ONSTACK;
    }
    ours.sa_sigaction = &on_termination;
    installed = sigaction(SIGTERM, &ours, nullptr) == 0;
}

void unwatch_termination() {
    current.store(nullptr, std::memory_order_release);
    struct sigaction found {};
    sigaction(SIGTERM, nullptr, &found);
    if (installed && is_ours(found)) {
        sigaction(SIGTERM, &before, nullptr);
        installed = false;
    }
}

}  // namespace rueda::core
