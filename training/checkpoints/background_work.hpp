// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "base/system/thread_signals.hpp"

namespace rueda::training {

/// Runs one function at a time in a thread of its own. Threads: one thread at a time may use the object.
class BackgroundWork {
public:
    BackgroundWork() = default;
    BackgroundWork(const BackgroundWork&) = delete;
    BackgroundWork& operator=(const BackgroundWork&) = delete;
    ~BackgroundWork() { wait(); }

    [[nodiscard]] bool is_busy() const noexcept {
        // this load pairs with the release store that the thread makes after its work
        return busy_.load(std::memory_order_acquire);
    }
    /// Waits for the previous work, and starts `work`, which must not throw. Throws std::system_error if the system
    /// refuses a thread.
    void start(std::function<void()> work) {
        wait();
        const base::ProgramSignalsBlocked blocked;
        // Relaxed order suffices. The thread is started after this store to `busy_`, so the thread's store comes later.
        busy_.store(true, std::memory_order_relaxed);
        try {
            thread_ = std::thread([this, work = std::move(work)] {
                work();
                busy_.store(false, std::memory_order_release);  // pairs with is_busy()
            });
        } catch (...) {
            busy_.store(false, std::memory_order_relaxed);  // only this thread reads it
            throw;
        }
    }
    /// Waits until the work has ended. The end of the thread wakes the caller.
    void wait() {
        if (thread_.joinable()) {
            thread_.join();
        }
    }

private:
    std::atomic<bool> busy_{false};
    std::thread thread_;
};

}  // namespace rueda::training
