// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sched.h>

#include <cstdint>

#include "base/shared_memory/atomics.hpp"
#include "base/system/clock.hpp"

namespace rueda::core {

/// How a waiting thread behaves before it sleeps: it spins, then it yields, then it sleeps on a futex.
struct WaitPolicy {
    std::int64_t spin_ns = 20'000;    ///< 0 if another thread may need the core
    std::int64_t yield_ns = 100'000;  ///< after spinning: how long to call sched_yield repeatedly
};

/// Chooses the policy for a machine and a setting (in seconds; −1 = automatic).
///
/// A cache line arrives in 0.12 µs, a peer's chunk within some tens of µs, and waking a thread by futex costs 6–30 µs.
/// sched_yield takes 0.33 µs if no other thread can run, so repeating it costs little. If the peer shares this core,
/// sched_yield lets the peer run. This happens if mpirun binds both ranks to one core, or if other jobs use the
/// remaining cores. With more ranks than cores it is the normal case, and spinning would only delay the peer.
[[nodiscard]] inline WaitPolicy wait_policy(double spin_setting_seconds, double cores, std::uint32_t ranks) {
    WaitPolicy policy;
    if (spin_setting_seconds >= 0) {
        policy.spin_ns = static_cast<std::int64_t>(spin_setting_seconds * 1e9);
    } else if (cores < static_cast<double>(ranks)) {
        policy.spin_ns = 0;
    }
    return policy;
}

/// The state of one wait: the caller calls pause() until it returns false, and then sleeps. Threads: one.
class Backoff {
public:
    explicit Backoff(const WaitPolicy& policy) : policy_(policy) {}

    void reset() { turns_ = 0; }

    /// Returns false when it is time to sleep.
    [[nodiscard]] bool pause() {
        // the clock is not read in every turn, because reading it costs as much as several turns
        constexpr std::uint32_t kTurnsPerLook = 16;
        if (turns_++ == 0) {
            yielding_ = policy_.spin_ns == 0;
        }
        // A cache line that was already sent arrives within a few turns; on recent processors, a pause instruction
        // takes about as long as that.
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
    std::int64_t begin_ns_ = 0;
};

}  // namespace rueda::core
