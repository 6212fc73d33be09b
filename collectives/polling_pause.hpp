// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace rueda::collectives {

/// The pauses of one wait for MPI or UCX. MPI has no function with which a thread could sleep until an event, and Rueda
/// does not use the event that UCX has. So the thread has to poll. A rank that is late is usually late by milliseconds,
/// so the pauses soon grow to 1 ms. Polling without pauses could take the core away from the late rank. Threads: only
/// one thread may use an object.
class PollingPause {
public:
    void wait() {
        constexpr int kYields = 100;
        if (yields_ < kYields) {
            ++yields_;
            ::sched_yield();
            return;
        }
        pause_ = std::min(pause_ + std::chrono::microseconds(20), std::chrono::microseconds(1000));
        std::this_thread::sleep_for(pause_);
    }

private:
    int yields_ = 0;
    std::chrono::microseconds pause_{0};
};

}  // namespace rueda::collectives
