// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Finds the line of the program that made a call, for the setting RUEDA_CALL_SITES=1. Threads: call these functions
// only on a thread that holds the GIL.
#pragma once

#include <cstdint>

namespace rueda::python {

struct CallSite {
    const char* file = nullptr;  ///< valid until the process ends
    std::int32_t line = 0;
};

/// note_if_call_sites_are_wanted() stores the job's setting after init. call_sites_are_wanted() returns it. Finding a
/// call site adds microseconds to each call.
void note_if_call_sites_are_wanted();
[[nodiscard]] bool call_sites_are_wanted();
/// Returns the file and the line of the innermost frame that belongs neither to the package rueda nor to PyTorch.
/// (torch.distributed calls Rueda from PyTorch's code.) If there is no such frame, returns the innermost frame of
/// PyTorch. If there is none either, the file is null.
[[nodiscard]] CallSite calling_site();

}  // namespace rueda::python
