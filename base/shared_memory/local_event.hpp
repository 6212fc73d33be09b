// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>

#include "base/shared_memory/atomics.hpp"

namespace rueda::base {

/// An event within one process: threads wait for it, and another thread signals it. While no thread sleeps, notify()
/// costs only one load.
template <class Atomics>
class BasicLocalEvent {
public:
    /// Sleeps until notify() is called, or the timeout has passed. This function first registers this thread, so that
    /// notify() knows that a thread sleeps. Then it calls `ready()` once. If `ready()` returns true, the function does
    /// not sleep. Because of this order, no notification is lost.
    template <class Ready>
    void wait(Ready&& ready, std::chrono::nanoseconds timeout) {
        const std::uint32_t seen = epoch_.load(std::memory_order_seq_cst);
        // seq_cst, like the load in notify(): either notify() sees this thread, or the call of ready() sees the change
        sleepers_.fetch_add(1, std::memory_order_seq_cst);
        if (!ready()) {
            Atomics::futex_wait(epoch_, seen, timeout);
        }
        sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    }
    /// Wakes all threads that wait. Call this after the change for which they wait. The change must be a seq_cst store
    /// or read-modify-write.
    void notify() {
        if (sleepers_.load(std::memory_order_seq_cst) != 0) {
            epoch_.fetch_add(1, std::memory_order_seq_cst);
            Atomics::futex_wake_all(epoch_);
        }
    }

private:
    typename Atomics::template Atomic<std::uint32_t> epoch_{0};
    typename Atomics::template Atomic<std::uint32_t> sleepers_{0};
};

using LocalEvent = BasicLocalEvent<StdAtomics>;

}  // namespace rueda::base
