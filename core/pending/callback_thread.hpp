// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "base/shared_memory/local_event.hpp"
#include "base/status.hpp"

namespace rueda::core {

/// A function call that is to be made later. The queue owns it from hand_over() until it is called; after that it owns
/// itself.
class QueuedCall {
public:
    QueuedCall() = default;
    virtual ~QueuedCall() = default;
    QueuedCall(const QueuedCall&) = delete;
    QueuedCall& operator=(const QueuedCall&) = delete;
    /// This is called once. It may destroy the object.
    virtual void call() noexcept = 0;

private:
    friend class CallbackThread;
    QueuedCall* next_ = nullptr;  // link of the queue; written before the push, read by the thread that takes the queue
};

/// Calls the functions that the program has registered for the end of operations, in the order of the completions, on a
/// thread of its own. A thread that completes an operation holds the progress lock, and may be a thread of the program
/// that is inside another call. A slow callback, or one that waits for a lock (Python's), must delay neither the holder
/// of the progress lock nor that call.
///
/// Threads: start() and hand_over() by any thread; stop() by the owner, but not from a callback. hand_over() takes no
/// lock and allocates nothing. A forked child does not have the thread, and must not call these functions.
class CallbackThread {
public:
    CallbackThread() = default;
    ~CallbackThread() { stop(); }
    CallbackThread(const CallbackThread&) = delete;
    CallbackThread& operator=(const CallbackThread&) = delete;

    /// Starts the thread if it does not run yet. Must come before the first hand_over(). After stop(), returns
    /// NotInitialized.
    [[nodiscard]] Status start();
    void hand_over(QueuedCall& call) noexcept;
    /// Returns when everything that was handed over has been called. After that, hand_over() calls the function itself.
    void stop();

private:
    void run();
    [[nodiscard]] bool close_if_empty();

    /// The newest call is first in the list, and the mark of a closed queue is last. All accesses are seq_cst: a thread
    /// that pushes checks for a sleeper afterwards, and the callback thread reads this after it has announced its sleep
    /// (LocalEvent). The push also releases the contents of the call, and the exchange in run() acquires them.
    std::atomic<QueuedCall*> newest_{nullptr};
    std::atomic<bool> stopping_{false};  // seq_cst, for the same reason: stop() stores this and then notifies
    base::LocalEvent event_;
    std::mutex mutex_;  // protects the next two members; while it is held, no other lock is taken and no thread waits
    bool stopped_ = false;
    std::thread thread_;
};

}  // namespace rueda::core
