// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Which line of the program called, for RUEDA_CALL_SITES=1. Threads: who holds the GIL.
#pragma once

#include <cstdint>

namespace rueda::python {

struct CallSite {
    const char* file = nullptr;  ///< stays valid
    std::int32_t line = 0;
};

/// After init: whether the job wants to know. Looking for it costs microseconds for each call.
void note_if_call_sites_are_wanted();
[[nodiscard]] bool call_sites_are_wanted();
/// The innermost frame that is neither of the package rueda nor of PyTorch, whose torch.distributed calls the backend;
/// of PyTorch's where it has no other. No file where there is none.
[[nodiscard]] CallSite calling_site();

}  // namespace rueda::python
