// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "collectives/host/arena/address_reserve.hpp"
#include "core/diagnostics/launcher_line.hpp"
#include "core/runtime/runtime.hpp"

/// The C interface over one Runtime per process. This struct holds all state of the process that the C interface has.
/// Other folders have process-wide state only for things that exist once per process in the system or in MPI: signal
/// handlers and their notes (core/termination, core/diagnostics/stacks), mappings that the arenas of a process share
/// (collectives/host/arena), whether Rueda initialised MPI and how many times its ranks have met (collectives/mpi),
/// memory that is kept because MPI or a signal handler may still use it, and in Python the calls that have not returned
/// (python/native/in_flight). The last error is kept per thread (guarded.cpp).
namespace rueda::core::c_interface {

/// Runtimes are never destroyed: handles, slots and resident memory may outlive a shutdown.
struct Process {
    std::mutex mutex;  // held during init and shutdown; taken before any other mutex
    /// Held only to read the list or to add to it, because memory may be freed while a shutdown waits for the other
    /// ranks.
    std::mutex runtimes_mutex;
    std::vector<std::unique_ptr<Runtime>> runtimes;  // written under both mutexes
    std::vector<int> launch_ranks;                   // launch rank of each member of the current job; under `mutex`
    std::int32_t next_set_id = 1;                    // higher than the set numbers of earlier jobs; under `mutex`
    std::atomic<Runtime*> current{nullptr};          // release: the store in init; acquire: all readers
    /// Created by the first init, with a release store; all readers use acquire. Never destroyed either.
    std::atomic<LauncherLine*> launcher{nullptr};
    /// True if a call has told the program why the job was aborted, or if the program has ended the job itself.
    /// Relaxed, because it orders nothing.
    std::atomic<bool> knows_of_abort{false};
    std::atomic<bool> forked{false};  // this process is a child of a process that had a Runtime
    collectives::AddressReserve addresses;
    /// The process that last began a job. Relaxed: only this process and its children use the number.
    std::atomic<pid_t> pid{0};
};

inline Process& process() {
    static auto* instance = new Process;  // never destroyed, because the last atexit handler may still use it
    return *instance;
}

[[nodiscard]] Status not_initialized();
[[nodiscard]] Result<Runtime*> current_runtime();
/// Says that the cause of the job's failure is in this process, so that the launcher reports the end of this process as
/// the cause.
void end_job(Runtime& runtime, const std::string& reason);

}  // namespace rueda::core::c_interface
