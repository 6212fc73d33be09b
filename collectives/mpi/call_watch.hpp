// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "collectives/mpi/plugin_interface.hpp"

namespace rueda::collectives {

/// Watches over a call of MPI that waits for other processes and cannot be interrupted, for as long as the object
/// lives. If the call takes longer than `timeout`, or the rules' interruption returns a failure, the watch calls the
/// rules' end_process.
///
/// Threads: made and destroyed by the thread that makes the call. It has one thread of its own, unless the rules name
/// no end_process or the system has no thread left; then nothing watches over the call.
class CallWatch {
public:
    /// `call` is the name of the MPI call, for error messages.
    CallWatch(MpiCallRules rules, const char* call, std::chrono::milliseconds timeout);
    /// Ends the watch, because the call has returned. Waits for an end_process that has begun.
    ~CallWatch();
    CallWatch(const CallWatch&) = delete;
    CallWatch& operator=(const CallWatch&) = delete;

private:
    void watch();

    const MpiCallRules rules_;
    const char* const call_;
    const std::chrono::milliseconds timeout_;
    std::mutex mutex_;
    std::condition_variable returned_;  // the destructor wakes watch()
    bool has_returned_ = false;         // under the mutex
    std::thread thread_;
};

}  // namespace rueda::collectives
