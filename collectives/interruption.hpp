// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>

#include "base/status.hpp"

namespace rueda::collectives {

/// A function that can end a wait for other ranks. A control plane calls it in the thread that waits. The arguments are
/// this rank's number and the number of ranks, both counted among the launched processes. If it returns a failure, the
/// wait ends with this failure. If the function is empty, only the control plane itself can end the wait.
using Interruption = std::function<Status(int rank, int size)>;

/// The interval between two calls of an Interruption. Each call costs a few system calls. The interval is nevertheless
/// short: if the start of a job cannot succeed any more, it must fail soon.
inline constexpr std::chrono::milliseconds kInterruptionInterval{20};

[[nodiscard]] inline Status ask(const Interruption& interruption, int rank, int size) {
    return interruption ? interruption(rank, size) : Status();
}

/// Limits `milliseconds`, an argument of poll(2), so that the Interruption is called again in time. −1 means no limit.
[[nodiscard]] inline int sliced(const Interruption& interruption, int milliseconds) {
    const int slice = static_cast<int>(kInterruptionInterval.count());
    return !interruption ? milliseconds : milliseconds < 0 ? slice : std::min(milliseconds, slice);
}

}  // namespace rueda::collectives
