// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "base/shared_memory/local_event.hpp"
#include "base/status.hpp"

namespace rueda::core {

/// Something to be called, which belongs to the queue from hand_over() until it is called, and to itself afterwards.
class QueuedCall {
public:
    QueuedCall() = default;
    virtual ~QueuedCall() = default;
    QueuedCall(const QueuedCall&) = delete;
    QueuedCall& operator=(const QueuedCall&) = delete;
    /// Once; may end the object.
    virtual void call() noexcept = 0;

private:
    friend class CallbackThread;
    QueuedCall* next_ = nullptr;  // of the queue; written before the push, read by who has taken the queue
};

/// Calls what the program wants to be called when operations complete, in the order of the completions, on a thread of
/// its own: what completes an operation holds the progress lock, and may be a thread of the program inside another
/// call; a callback that takes its time, or waits for a lock (Python's), must hold up neither.
///
/// Threads: start() and hand_over() by any; stop() by the owner, not from a callback. hand_over() takes no lock and
/// allocates nothing. A forked child has no such thread, and must not ask.
class CallbackThread {
public:
    CallbackThread() = default;
    ~CallbackThread() { stop(); }
    CallbackThread(const CallbackThread&) = delete;
    CallbackThread& operator=(const CallbackThread&) = delete;

    /// Makes sure that there is a thread, before anything is handed over. After stop(): NotInitialized.
    [[nodiscard]] Status start();
    void hand_over(QueuedCall& call) noexcept;
    /// Returns when everything that was handed over has been called. What is handed over afterwards is called by who
    /// does it.
    void stop();

private:
    void run();
    [[nodiscard]] bool close_if_empty();

    /// The newest call first; the mark of a closed queue at the end. seq_cst throughout: who pushes looks for a sleeper
    /// afterwards, and the thread looks here after it has said that it sleeps (LocalEvent). The push also releases what
    /// the call consists of, and the exchange in run() acquires it.
    std::atomic<QueuedCall*> newest_{nullptr};
    std::atomic<bool> stopping_{false};  // seq_cst, for the same reason: stop() stores, then notifies
    base::LocalEvent event_;
    std::mutex mutex_;  // of the two below; nothing is locked under it, and nobody waits with it
    bool stopped_ = false;
    std::thread thread_;
};

}  // namespace rueda::core
