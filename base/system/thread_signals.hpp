// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <signal.h>

namespace rueda::base {

/// Returns the signals that threads of Rueda block. The program's own threads must handle signals, so Rueda's threads
/// block all signals except those for a fault of the thread itself. If a fault signal were blocked, the kernel would
/// end the process without calling a handler. Neither AddressSanitizer, nor Python's faulthandler, nor Rueda could then
/// say where the fault was.
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

}  // namespace rueda::base
