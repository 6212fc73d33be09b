// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "base/shared_memory/local_event.hpp"
#include "base/status.hpp"

namespace rueda::core {

/// A function call that is made later, by another thread. The queue owns the object from hand_over() until call().
/// Afterwards the object is responsible for its own destruction.
class QueuedCall {
public:
    QueuedCall() = default;
    virtual ~QueuedCall() = default;
    QueuedCall(const QueuedCall&) = delete;
    QueuedCall& operator=(const QueuedCall&) = delete;
    /// The callback thread calls this once. The function may destroy the object.
    virtual void call() noexcept = 0;

private:
    friend class CallbackThread;
    // The next call in the queue. The thread that pushes the call writes this pointer before the push. The thread that
    // takes the queue reads it.
    QueuedCall* next_ = nullptr;
};

/// Has a thread that calls the program's callbacks, in the order in which the operations end. The thread that completes
/// an operation cannot call the callback itself: this thread holds the progress lock, and may be a thread of the
/// program inside another call of Rueda. A callback can be slow, or it can wait for a lock, for example Python's. This
/// would delay the progress and the other call.
///
/// Threads: start() and hand_over() run in any thread. stop() runs in the owner's thread, but not in a callback.
/// hand_over() takes no lock and allocates nothing. A forked child has no callback thread, and must not call these
/// functions.
class CallbackThread {
public:
    CallbackThread() = default;
    ~CallbackThread() { stop(); }
    CallbackThread(const CallbackThread&) = delete;
    CallbackThread& operator=(const CallbackThread&) = delete;

    /// Starts the thread if it does not run yet. Call this before the first hand_over(). Returns NotInitialized after
    /// stop().
    [[nodiscard]] Status start();
    /// Queues a call for the thread.
    void hand_over(QueuedCall& call) noexcept;
    /// Ends the thread. Returns when the thread has made all queued calls. Afterwards, hand_over() makes the call
    /// itself.
    void stop();

private:
    void run();
    [[nodiscard]] bool close_if_empty();

    /// A list of calls, the newest first. A closed queue holds only the closed mark. Accesses are seq_cst: a thread
    /// pushes a call, and then checks whether the callback thread sleeps. The callback thread first stores that it
    /// sleeps (LocalEvent), and then reads the list. So either the callback thread sees the call, or the pushing thread
    /// wakes it. The push also releases the content of the call, and the exchange in run() acquires it.
    std::atomic<QueuedCall*> newest_{nullptr};
    // Accesses are seq_cst, as for newest_: stop() stores this flag, and then checks whether the callback thread
    // sleeps.
    std::atomic<bool> stopping_{false};
    base::LocalEvent event_;
    std::mutex mutex_;  // protects stopped_ and thread_; a thread that holds this mutex takes no other lock and does
                        // not wait
    bool stopped_ = false;
    std::thread thread_;
};

}  // namespace rueda::core
