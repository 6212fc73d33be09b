// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <signal.h>

namespace rueda::base {

/// The signals that a thread of Rueda blocks. Signals belong to the threads of the program, so Rueda blocks all except
/// those by which the kernel reports a thread's own fault. If a fault signal were blocked, the kernel would end the
/// process without calling a handler. Then neither a checker (AddressSanitizer, Python's faulthandler) nor Rueda could
/// say where the fault was.
[[nodiscard]] inline sigset_t signals_of_the_program() noexcept {
    sigset_t signals;
    sigfillset(&signals);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
        sigdelset(&signals, fault);
    }
    return signals;
}

}  // namespace rueda::base
