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
/// Other rooms have state of the process only where the system or MPI has one of a thing per process: signal handlers
/// and their notes (core/termination), mappings that the arenas of a process share (collectives/host/arena), whether
/// Rueda initialised MPI (collectives/mpi), and memory that is kept because MPI or a signal handler may still use it.
namespace rueda::core::c_interface {

/// Runtimes are never destroyed: handles, slots and resident memory may outlive a shutdown.
struct Process {
    std::mutex mutex;  // init and shutdown, as long as they take; taken before anything else
    /// Held for a look or an addition only: memory is given back while a shutdown waits for the other ranks.
    std::mutex runtimes_mutex;
    std::vector<std::unique_ptr<Runtime>> runtimes;  // written under both
    std::vector<int> launch_ranks;                   // of the current job, by rank; under `mutex`
    std::int32_t next_set_id = 1;                    // no job that has ended here has had it; under `mutex`
    std::atomic<Runtime*> current{nullptr};          // release by init; acquire by everybody
    /// Of the first init on. Release by it; acquire by everybody. Never destroyed either.
    std::atomic<LauncherLine*> launcher{nullptr};
    /// A call has told the program why the job was aborted, or the program has ended the job itself. Relaxed: it orders
    /// nothing.
    std::atomic<bool> knows_of_abort{false};
    std::atomic<bool> forked{false};  // this process is a child of one that had a Runtime
    collectives::AddressReserve addresses;
    /// Of the process that has begun a job last. Relaxed: it means something to that process and to its children.
    std::atomic<pid_t> pid{0};
};

inline Process& process() {
    static auto* instance = new Process;  // on purpose never destroyed: used until the last atexit handler
    return *instance;
}

[[nodiscard]] Status not_initialized();
[[nodiscard]] Result<Runtime*> current_runtime();
/// In this process, that is: what the launcher hears of its end is what the job failed of.
void end_job(Runtime& runtime, const std::string& reason);

}  // namespace rueda::core::c_interface
