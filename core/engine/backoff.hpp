// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sched.h>

#include <cstdint>

#include "base/shared_memory/atomics.hpp"
#include "base/system/clock.hpp"

namespace rueda::core {

/// A waiting thread first spins, then yields the core, and then sleeps on a futex. This struct has the durations of the
/// first two steps.
struct WaitPolicy {
    std::int64_t spin_ns = 20'000;    ///< how long the thread spins; 0 if another thread may need the same core
    std::int64_t yield_ns = 100'000;  ///< how long the thread calls sched_yield, after spinning
};

/// Chooses the policy. `spin_setting_seconds` is the user's setting for the spinning time; a negative value means
/// automatic.
///
/// The policy weighs the following times. A cache line arrives in 0.12 µs, and another rank's chunk within some tens of
/// µs. Waking a thread by futex costs 6–30 µs. sched_yield takes 0.33 µs if no other thread can run, so many calls cost
/// little. If another rank must use the same core, sched_yield lets that rank run, and spinning would only delay it.
/// Ranks always share cores if there are more ranks than cores. Two ranks also share a core if mpirun binds both to it.
[[nodiscard]] inline WaitPolicy wait_policy(double spin_setting_seconds, double cores, std::uint32_t ranks) {
    WaitPolicy policy;
    if (spin_setting_seconds >= 0) {
        policy.spin_ns = static_cast<std::int64_t>(spin_setting_seconds * 1e9);
    } else if (cores < static_cast<double>(ranks)) {
        policy.spin_ns = 0;
    }
    return policy;
}

/// The state of one wait: the caller calls pause() until pause() returns false, and then sleeps. Threads: one.
class Backoff {
public:
    explicit Backoff(const WaitPolicy& policy) : policy_(policy) {}

    void reset() {
        turns_ = 0;
        is_over_ = false;
    }
    /// After this call, the next pause() returns false at once. Call this if the last sleep ended by its timer, so that
    /// the thread sleeps again.
    void end() { is_over_ = true; }

    /// Waits for a short time. Returns false when the caller should sleep.
    [[nodiscard]] bool pause() {
        // The clock is read only every 16th time, because reading it costs as much as several calls of pause().
        constexpr std::uint32_t kTurnsPerLook = 16;
        if (is_over_) {
            is_over_ = false;
            return false;
        }
        if (turns_++ == 0) {
            yielding_ = policy_.spin_ns == 0;
        }
        // Each of the first calls only executes one pause instruction. A cache line that another core has already
        // written arrives within a few calls.
        if (turns_ < kTurnsPerLook && !yielding_) {
            return true;
        }
        if (turns_ == kTurnsPerLook) {
            begin_ns_ = base::monotonic_ns();
        }
        if (turns_ % kTurnsPerLook == 0) {
            const std::int64_t waited_ns = base::monotonic_ns() - begin_ns_;
            yielding_ = waited_ns >= policy_.spin_ns;
            if (waited_ns >= policy_.spin_ns + policy_.yield_ns) {
                return false;
            }
        }
        if (yielding_) {
            sched_yield();
        } else {
            base::StdAtomics::pause();
        }
        return true;
    }

private:
    WaitPolicy policy_;
    std::uint32_t turns_ = 0;
    bool yielding_ = false;
    bool is_over_ = false;
    std::int64_t begin_ns_ = 0;
};

}  // namespace rueda::core
