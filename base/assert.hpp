// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdio>
#include <cstdlib>

/// For defects in Rueda itself only, never for mistakes of a caller, of a peer or in a file. It stays on in releases,
/// because a broken invariant in shared memory would reach every rank.
#define RUEDA_ASSERT(condition)                                                                              \
    do {                                                                                                     \
        if (!(condition)) [[unlikely]] {                                                                     \
            std::fprintf(stderr, "rueda: internal error: %s does not hold at %s:%d\n", #condition, __FILE__, \
                         __LINE__);                                                                          \
            std::abort();                                                                                    \
        }                                                                                                    \
    } while (false)
