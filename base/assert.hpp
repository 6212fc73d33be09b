// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdio>
#include <cstdlib>

/// Checks for defects in Rueda itself. Mistakes of a caller, of a peer or in a file are errors instead, not assertions.
/// Releases contain the checks too, because a broken invariant in shared memory would reach every rank.
#define RUEDA_ASSERT(condition)                                                                              \
    do {                                                                                                     \
        if (!(condition)) [[unlikely]] {                                                                     \
            std::fprintf(stderr, "rueda: internal error: %s does not hold at %s:%d\n", #condition, __FILE__, \
                         __LINE__);                                                                          \
            std::abort();                                                                                    \
        }                                                                                                    \
    } while (false)
