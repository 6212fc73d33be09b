// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A library that does its harm while it is loaded: it is built once to crash and once to hang.
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void harm(void) {
#ifdef RUEDA_HANGS
    for (;;) {
        sleep(1000);
    }
#else
    abort();
#endif
}
