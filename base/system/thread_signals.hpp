// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace rueda::base {

/// Returns the signals that threads of Rueda block. Rueda's threads block all signals except those for faults (such as
/// SIGSEGV), so that the program's own threads handle the signals. If a fault signal were blocked, the kernel would end
/// the process without calling a handler. Neither AddressSanitizer, nor Python's faulthandler, nor Rueda could then say
/// where the fault was.
[[nodiscard]] inline sigset_t signals_of_the_program() noexcept {
    sigset_t signals;
    sigfillset(&signals);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
        sigdelset(&signals, fault);
    }
    return signals;
}

/// While an object of this class lives, every new thread that the current thread starts blocks the signals in
/// signals_of_the_program().
class ProgramSignalsBlocked {
public:
    ProgramSignalsBlocked() noexcept {
        const sigset_t blocked = signals_of_the_program();
        pthread_sigmask(SIG_SETMASK, &blocked, &before_);
    }
    ProgramSignalsBlocked(const ProgramSignalsBlocked&) = delete;
    ProgramSignalsBlocked& operator=(const ProgramSignalsBlocked&) = delete;
    ~ProgramSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
    sigset_t before_{};
};

/// While an object of this class lives, SIGPIPE is blocked in the current thread. If the thread writes to a pipe or a
/// connection that nobody reads any more, the write fails with EPIPE, and the process does not end. The process's
/// action for SIGPIPE stays as the program has set it. This class is for writes that cannot have MSG_NOSIGNAL: those of
/// MPI, and those to the standard error. A thread that is started meanwhile also blocks SIGPIPE. Objects may be nested.
/// Signal handlers may use this class: it does not change errno, and contains no cancellation point.
class SigpipeBlocked {
public:
    /// If `wanted` is false, the object does nothing.
    explicit SigpipeBlocked(bool wanted = true) noexcept {
        if (wanted) {
            sigset_t before;
            const sigset_t pipe = only_sigpipe();
            was_unblocked_ = pthread_sigmask(SIG_BLOCK, &pipe, &before) == 0 && sigismember(&before, SIGPIPE) == 0;
        }
    }
    SigpipeBlocked(const SigpipeBlocked&) = delete;
    SigpipeBlocked& operator=(const SigpipeBlocked&) = delete;
    ~SigpipeBlocked() {
        if (was_unblocked_) {
            const int saved_errno = errno;
            const sigset_t pipe = only_sigpipe();
            // Removes the pending SIGPIPE of a failed write. The system call is made directly, because the function
            // sigtimedwait() is a cancellation point.
            constexpr timespec kNoWait{};
            constexpr long kBytesOfKernelsSet = 8;
            syscall(SYS_rt_sigtimedwait, &pipe, nullptr, &kNoWait, kBytesOfKernelsSet);
            pthread_sigmask(SIG_UNBLOCK, &pipe, nullptr);
            errno = saved_errno;
        }
    }

private:
    [[nodiscard]] static sigset_t only_sigpipe() noexcept {
        sigset_t pipe;
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        return pipe;
    }

    bool was_unblocked_ = false;
};

}  // namespace rueda::base
