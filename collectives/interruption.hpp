// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>

#include "base/status.hpp"

namespace rueda::collectives {

/// Asked by a control plane while it waits for other ranks, by the thread that waits: whether there is still something
/// to wait for, for this rank of so many: of those that were launched. A failure ends the wait with it. Empty: nobody
/// knows more than the plane.
using Interruption = std::function<Status(int rank, int size)>;

/// How often it is asked: a few system calls, and a start that cannot succeed ends soon enough.
inline constexpr std::chrono::milliseconds kInterruptionInterval{20};

[[nodiscard]] inline Status ask(const Interruption& interruption, int rank, int size) {
    return interruption ? interruption(rank, size) : Status();
}

/// The longest sleep until it is to be asked again, in the form of poll(2); −1: as long as one likes.
[[nodiscard]] inline int sliced(const Interruption& interruption, int milliseconds) {
    const int slice = static_cast<int>(kInterruptionInterval.count());
    return !interruption ? milliseconds : milliseconds < 0 ? slice : std::min(milliseconds, slice);
}

}  // namespace rueda::collectives
