// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "base/shared_memory/local_event.hpp"
#include "base/status.hpp"

namespace rueda::core {

/// A call to be made. It belongs to the queue from hand_over() until it is called, and to itself afterwards.
class QueuedCall {
public:
    QueuedCall() = default;
    virtual ~QueuedCall() = default;
    QueuedCall(const QueuedCall&) = delete;
    QueuedCall& operator=(const QueuedCall&) = delete;
    /// Called once. It may destroy the object.
    virtual void call() noexcept = 0;

private:
    friend class CallbackThread;
    QueuedCall* next_ = nullptr;  // the queue's link; written before the push, read by the thread that takes the queue
};

/// Makes the calls that the program wants when operations complete, in the order of the completions, on a thread of its
/// own. A thread that completes an operation holds the progress lock, and may be a thread of the program inside another
/// call. A callback that takes long, or waits for a lock (Python's), must delay neither of them.
///
/// Threads: start() and hand_over() by any; stop() by the owner, not from a callback. hand_over() takes no lock and
/// allocates nothing. A forked child has no such thread and must not call these functions.
class CallbackThread {
public:
    CallbackThread() = default;
    ~CallbackThread() { stop(); }
    CallbackThread(const CallbackThread&) = delete;
    CallbackThread& operator=(const CallbackThread&) = delete;

    /// Starts the thread, if there is none, before anything is handed over. After stop(): NotInitialized.
    [[nodiscard]] Status start();
    void hand_over(QueuedCall& call) noexcept;
    /// Returns when everything that was handed over has been called. After that, hand_over() makes its call itself.
    void stop();

private:
    void run();
    [[nodiscard]] bool close_if_empty();

    /// The newest call comes first, and the mark of a closed queue is at the end. All accesses are seq_cst: a thread
    /// that pushes looks for a sleeper afterwards, and the callback thread looks here after it has announced its sleep
    /// (LocalEvent). The push also releases the contents of the call, and the exchange in run() acquires them.
    std::atomic<QueuedCall*> newest_{nullptr};
    std::atomic<bool> stopping_{false};  // seq_cst, for the same reason: stop() stores, then notifies
    base::LocalEvent event_;
    std::mutex mutex_;  // protects the two below; nothing is locked under it, and no thread waits while holding it
    bool stopped_ = false;
    std::thread thread_;
};

}  // namespace rueda::core
