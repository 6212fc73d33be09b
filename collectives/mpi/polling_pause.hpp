// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace rueda::collectives {

/// The pauses of one wait. The wait has to poll, because a thread cannot sleep until an event of MPI. If a rank is
/// late, it is usually late by milliseconds. So the pauses soon grow, up to 1 ms; spinning could take the core away
/// from the rank that is awaited. Threads: one.
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
