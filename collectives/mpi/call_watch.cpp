// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/mpi/call_watch.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace rueda::collectives {
namespace {

using Clock = std::chrono::steady_clock;

Status took_too_long(const char* call, std::chrono::milliseconds timeout) {
    return failure(ErrorCode::timeout,
                   "init: {} did not return within {} s (RUEDA_START_TIMEOUT): a rank of this launch has not called "
                   "it, or the ranks cannot reach each other; look for a rank that has ended or is late, or raise "
                   "RUEDA_START_TIMEOUT",
                   call, std::chrono::duration<double>(timeout).count());
}

}  // namespace

CallWatch::CallWatch(MpiCallRules rules, const char* call, std::chrono::milliseconds timeout)
    : rules_(std::move(rules)), call_(call), timeout_(timeout) {
    if (!rules_.end_process) {
        return;
    }
    // Signals must be handled by the program's own threads, so this thread blocks all signals.
    sigset_t all;
    sigset_t saved;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    try {
        thread_ = std::thread([this] { watch(); });
    } catch (const std::system_error&) {
        // The system allows no further thread. The MPI call may still succeed, so it is made without a watch.
    }
    pthread_sigmask(SIG_SETMASK, &saved, nullptr);
}

CallWatch::~CallWatch() {
    {
        const std::lock_guard lock(mutex_);
        has_returned_ = true;
    }
    returned_.notify_one();
    if (thread_.joinable()) {
        thread_.join();
    }
}

void CallWatch::watch() {
    const Clock::time_point deadline = Clock::now() + timeout_;
    // The mutex stays locked while end_process() runs. If the MPI call returns in the meantime, its caller waits for
    // the mutex in the destructor and does not continue.
    std::unique_lock lock(mutex_);
    while (!has_returned_) {
        Status reason = ask(rules_.interruption, rules_.rank, rules_.size);
        if (reason.is_ok() && Clock::now() >= deadline) {
            reason = took_too_long(call_, timeout_);
        }
        if (!reason.is_ok()) {
            rules_.end_process(call_, rules_.rank, reason);
            return;
        }
        const Clock::time_point next_look =
            rules_.interruption ? std::min(deadline, Clock::now() + kInterruptionInterval) : deadline;
        returned_.wait_until(lock, next_look, [this] { return has_returned_; });
    }
}

}  // namespace rueda::collectives
