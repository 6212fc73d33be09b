// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A library that crashes or hangs while it is loaded. Each case is a separate build of this file.
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
