// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/pending/callback_thread.hpp"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <utility>

#include "base/shared_memory/atomics.hpp"
#include "base/system/thread_signals.hpp"

namespace rueda::core {
namespace {

/// An object of this class marks a queue as closed. A closed queue accepts no more calls.
class ClosedMark final : public QueuedCall {
public:
    void call() noexcept override {}
};
ClosedMark closed_mark;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): has no state, only an address

}  // namespace

Status CallbackThread::start() {
    const std::lock_guard lock(mutex_);
    if (stopped_) {
        return {ErrorCode::not_initialized, "rueda::shutdown() has been called on this rank"};
    }
    if (thread_.joinable()) {
        return {};
    }
    try {
        const base::ProgramSignalsBlocked without_signals;
        thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
        return failure(ErrorCode::resource_exhausted,
                       "the thread for completion callbacks could not be started ({}): raise the limit of processes "
                       "(ulimit -u, or pids.max of the control group)",
                       error.what());
    }
    pthread_setname_np(thread_.native_handle(), "rueda-calls");
    return {};
}

void CallbackThread::hand_over(QueuedCall& call) noexcept {
    QueuedCall* newest = newest_.load(std::memory_order_seq_cst);
    do {
        if (newest == &closed_mark) {
            call.call();
            return;
        }
        call.next_ = newest;
    } while (!newest_.compare_exchange_weak(newest, &call, std::memory_order_seq_cst));
    // Only a push into an empty queue wakes the callback thread, because this thread always takes the whole queue. So
    // if a batch of operations completes, one system call is enough.
    if (newest == nullptr) {
        event_.notify();
    }
}

void CallbackThread::stop() {
    std::thread thread;
    {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
        thread = std::move(thread_);
    }
    if (!thread.joinable()) {
        return;  // There is no thread to stop. If it was never started, the queue is empty.
    }
    stopping_.store(true, std::memory_order_seq_cst);
    event_.notify();
    thread.join();
}

bool CallbackThread::close_if_empty() {
    QueuedCall* empty = nullptr;
    return newest_.compare_exchange_strong(empty, &closed_mark, std::memory_order_seq_cst);
}

/// The wait ends when hand_over() or stop() is called. Both are called in this process. So the wait needs no timeout:
/// no death of another process can prevent these calls.
void CallbackThread::run() {
    const auto has_to_do = [this] {
        return newest_.load(std::memory_order_seq_cst) != nullptr || stopping_.load(std::memory_order_seq_cst);
    };
    for (;;) {
        event_.wait(has_to_do, base::kLongestSleep);
        QueuedCall* left = newest_.exchange(nullptr, std::memory_order_seq_cst);
        QueuedCall* oldest = nullptr;
        while (left != nullptr) {
            QueuedCall* const next = std::exchange(left->next_, oldest);
            oldest = std::exchange(left, next);
        }
        while (oldest != nullptr) {
            // The pointer to the next call is read before this call is made, because the call may destroy its object.
            QueuedCall* const next = oldest->next_;
            oldest->call();
            oldest = next;
        }
        if (stopping_.load(std::memory_order_seq_cst) && close_if_empty()) {
            return;
        }
    }
}

}  // namespace rueda::core
