// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Finds the line of the program that made a call, for RUEDA_CALL_SITES=1. Threads: a thread that holds the GIL.
#pragma once

#include <cstdint>

namespace rueda::python {

struct CallSite {
    const char* file = nullptr;  ///< stays valid
    std::int32_t line = 0;
};

/// Whether the job records call sites. Valid after init. To find a call site costs microseconds for each call.
void note_if_call_sites_are_wanted();
[[nodiscard]] bool call_sites_are_wanted();
/// Returns the innermost frame that is neither in the package rueda nor in PyTorch, whose torch.distributed calls the
/// backend. If there is no such frame, returns one of PyTorch. The file is null if there is none either.
[[nodiscard]] CallSite calling_site();

}  // namespace rueda::python
