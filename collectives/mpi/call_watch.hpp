// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "collectives/mpi/plugin_interface.hpp"

namespace rueda::collectives {

/// Watches a call of MPI that waits for other processes and cannot be interrupted. The watch lasts as long as the
/// object lives. If the call takes longer than `timeout`, or if rules.interruption returns a failure, the watch calls
/// rules.end_process().
///
/// Threads: the thread that makes the MPI call creates and destroys the object. The watch itself runs in a thread of
/// its own. The call is not watched if `rules.end_process` is empty, or if the system allows no further thread.
class CallWatch {
public:
    /// `call` is the name of the MPI call, for error messages.
    CallWatch(MpiCallRules rules, const char* call, std::chrono::milliseconds timeout);
    /// Ends the watch. Destroy the object after the call has returned. If end_process() has begun, the destructor waits
    /// for it.
    ~CallWatch();
    CallWatch(const CallWatch&) = delete;
    CallWatch& operator=(const CallWatch&) = delete;

private:
    void watch();

    const MpiCallRules rules_;
    const char* const call_;
    const std::chrono::milliseconds timeout_;
    std::mutex mutex_;
    // watch() waits on this condition variable. The destructor notifies it when the MPI call has returned.
    std::condition_variable returned_;
    bool has_returned_ = false;  // protected by mutex_
    std::thread thread_;
};

}  // namespace rueda::collectives
