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

/// The state of the C interface, which has one Runtime per process. Other folders keep process-wide state only for
/// things that exist once per process:
/// - signal handlers and their data (core/termination, core/diagnostics/stacks);
/// - mappings that all arenas of a process share (collectives/host/arena);
/// - whether Rueda initialised MPI, and how many times Rueda's ranks have connected (collectives/mpi);
/// - memory that is kept because MPI or a signal handler may still use it;
/// - in Python, the calls that have not returned (python/native/in_flight).
///
/// The last error is kept per thread (guarded.cpp).
namespace rueda::core::c_interface {

/// The Runtimes in this struct are never destroyed: handles, slots and resident memory may outlive a shutdown.
struct Process {
    std::mutex mutex;  // Held during init and shutdown. A thread takes this mutex before any other mutex.
    /// A thread holds this mutex only while it reads or extends the list, and never while it waits for other ranks.
    /// Freeing memory needs this mutex. If a shutdown held this mutex while it waits for other ranks, a thread that
    /// frees memory would have to wait, too.
    std::mutex runtimes_mutex;
    std::vector<std::unique_ptr<Runtime>> runtimes;  // written under both mutexes
    std::vector<int> launch_ranks;  // For each rank of the current job: its rank in the launch. Protected by `mutex`.
    std::int32_t next_set_id = 1;   // Larger than the numbers of all process sets of earlier jobs. Protected by
                                    // `mutex`.
    // The job that this process is in, or null. init stores it with release, and all readers load it with acquire.
    std::atomic<Runtime*> current{nullptr};
    /// The connection to the launcher. The first init creates it and stores it with release; all readers load it with
    /// acquire. It is never destroyed.
    std::atomic<LauncherLine*> launcher{nullptr};
    /// True if a call has returned the reason of the abort to the program, or if the program itself has ended the job.
    /// Accesses are relaxed, because no other data depend on the flag.
    std::atomic<bool> knows_of_abort{false};
    /// How long threads of the program were blocked in the operations of earlier jobs of this process, in nanoseconds.
    /// init writes this value before it stores `current` with release. Readers that have loaded `current` with acquire
    /// may therefore use a relaxed load.
    std::atomic<std::int64_t> blocked_before_ns{0};
    std::atomic<bool> forked{false};  // whether this process was forked by a process that had a Runtime
    collectives::AddressReserve addresses;
    /// The process that last began a job. Accesses are relaxed, because only this process and its children read it.
    std::atomic<pid_t> pid{0};
};

inline Process& process() {
    static auto* instance = new Process;  // The object is never destroyed, because the last exit handler may still use
                                          // it.
    return *instance;
}

[[nodiscard]] Status not_initialized();
[[nodiscard]] Result<Runtime*> current_runtime();
/// Ends the job because of a failure in this process. The launcher is told first, so that it reports this process as
/// the cause.
void end_job(Runtime& runtime, const std::string& reason);

}  // namespace rueda::core::c_interface
