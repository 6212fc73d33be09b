// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <signal.h>

namespace rueda::base {

/// What a thread of Rueda blocks, because signals belong to the program's threads: all but those by which the kernel
/// tells a thread of its own fault. If such a signal is blocked, the kernel ends the process without calling a handler,
/// and neither a checker (AddressSanitizer, Python's faulthandler) nor Rueda could say where it was.
[[nodiscard]] inline sigset_t signals_of_the_program() noexcept {
    sigset_t signals;
    sigfillset(&signals);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
        sigdelset(&signals, fault);
    }
    return signals;
}

}  // namespace rueda::base
