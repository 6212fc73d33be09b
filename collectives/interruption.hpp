// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>

#include "base/status.hpp"

namespace rueda::collectives {

/// A control plane that waits for other ranks calls this function, in the waiting thread, to ask whether waiting still
/// makes sense. It gets this rank's number and the number of ranks, both counted among the processes that were
/// launched. If the function returns a failure, the wait ends with it. Empty: only the plane itself decides.
using Interruption = std::function<Status(int rank, int size)>;

/// How often the function is called. A call costs a few system calls, and at this rate a start that cannot succeed ends
/// soon enough.
inline constexpr std::chrono::milliseconds kInterruptionInterval{20};

[[nodiscard]] inline Status ask(const Interruption& interruption, int rank, int size) {
    return interruption ? interruption(rank, size) : Status();
}

/// The longest sleep until the function must be called again, in the form that poll(2) takes; −1 means no limit.
[[nodiscard]] inline int sliced(const Interruption& interruption, int milliseconds) {
    const int slice = static_cast<int>(kInterruptionInterval.count());
    return !interruption ? milliseconds : milliseconds < 0 ? slice : std::min(milliseconds, slice);
}

}  // namespace rueda::collectives
