// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>

#include "base/status.hpp"

namespace rueda::collectives {

/// A function that says whether waiting for other ranks still makes sense. A control plane calls it in the waiting
/// thread. The arguments are this rank's number and the number of ranks, both counted among the launched processes. If
/// the function returns a failure, the wait ends with this failure. If the function is empty, only the plane itself
/// decides when to stop waiting.
using Interruption = std::function<Status(int rank, int size)>;

/// The interval between two calls of the function. A call costs a few system calls. With this interval, a start that
/// cannot succeed ends soon enough.
inline constexpr std::chrono::milliseconds kInterruptionInterval{20};

[[nodiscard]] inline Status ask(const Interruption& interruption, int rank, int size) {
    return interruption ? interruption(rank, size) : Status();
}

/// The longest time to sleep before the function must be called again, as an argument of poll(2); −1 means no limit.
[[nodiscard]] inline int sliced(const Interruption& interruption, int milliseconds) {
    const int slice = static_cast<int>(kInterruptionInterval.count());
    return !interruption ? milliseconds : milliseconds < 0 ? slice : std::min(milliseconds, slice);
}

}  // namespace rueda::collectives
