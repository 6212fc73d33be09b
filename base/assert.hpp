// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdio>
#include <cstdlib>

/// For defects in Rueda itself only, never for what a caller, a peer or a file did. Stays on in releases: a broken
/// invariant in shared memory would reach every rank.
#define RUEDA_ASSERT(condition)                                                                              \
    do {                                                                                                     \
        if (!(condition)) [[unlikely]] {                                                                     \
            std::fprintf(stderr, "rueda: internal error: %s does not hold at %s:%d\n", #condition, __FILE__, \
                         __LINE__);                                                                          \
            std::abort();                                                                                    \
        }                                                                                                    \
    } while (false)
