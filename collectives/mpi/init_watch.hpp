// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "collectives/mpi/plugin_interface.hpp"

namespace rueda::collectives {

/// Watches over a call of MPI_Init for as long as the object lives. If the call takes longer than `timeout`, or the
/// rules' interruption reports a failure, the rules' end_process is called.
///
/// Threads: made and destroyed by the thread that calls MPI_Init. It has one thread of its own, unless the rules name
/// no end_process or the system has no thread left; then MPI_Init is not watched.
class InitWatch {
public:
    InitWatch(const MpiInitRules& rules, std::chrono::milliseconds timeout);
    /// MPI_Init has returned. Waits for an end_process that has begun.
    ~InitWatch();
    InitWatch(const InitWatch&) = delete;
    InitWatch& operator=(const InitWatch&) = delete;

private:
    void watch();

    const MpiInitRules& rules_;
    const std::chrono::milliseconds timeout_;
    std::mutex mutex_;
    std::condition_variable returned_;  // the destructor wakes watch()
    bool has_returned_ = false;         // under the mutex
    std::thread thread_;
};

}  // namespace rueda::collectives
