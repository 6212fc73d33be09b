// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdio>
#include <cstdlib>

/// Checks for defects in Rueda itself. Mistakes of callers, messages from other processes and contents of files are not
/// checked here; they are reported as errors. Release builds contain the checks too, because a wrong state in shared
/// memory would affect every rank.
#define RUEDA_ASSERT(condition)                                                                              \
    do {                                                                                                     \
        if (!(condition)) [[unlikely]] {                                                                     \
            std::fprintf(stderr, "rueda: internal error: %s does not hold at %s:%d\n", #condition, __FILE__, \
                         __LINE__);                                                                          \
            std::abort();                                                                                    \
        }                                                                                                    \
    } while (false)
