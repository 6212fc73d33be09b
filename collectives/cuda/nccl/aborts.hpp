// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <memory>

#include "collectives/cuda/nccl/load_nccl.hpp"

/// Aborts NCCL's communicators in threads of their own.
///
/// ncclCommAbort() first sets a flag that ends the communicator's kernels, and then frees memory. Freeing memory waits
/// for the other kernels of the device. If a process aborts its communicators one after another, the first abort can
/// therefore wait for ever. It waits for kernels of the second communicator, and these end only when the second
/// communicator is aborted (pytorch#119797). So start_abort() starts a thread for each communicator, and no abort waits
/// for another one. If NCCL can abort several communicators in one group, the first thread takes all that wait, and
/// later threads find none. If a thread hangs in NCCL (nccl#1777), only its own communicators are affected.
///
/// The process may end while a thread still aborts communicators.
namespace rueda::collectives::cuda {

/// An abort that was started.
class StartedAbort;
using StartedAbortPtr = std::shared_ptr<StartedAbort>;

/// Starts the abort of `communicator`. No thread may be inside a call of NCCL with this communicator. Does not wait.
/// Returns null if no thread can be started. The thread of a later start_abort() then aborts this communicator, too.
/// Threads: any thread.
[[nodiscard]] StartedAbortPtr start_abort(std::shared_ptr<const LoadedNccl> nccl,
                                          NcclCommunicator communicator) noexcept;

/// Waits until the abort has ended, or until `limit` has passed. Returns whether the abort has ended. The thread of the
/// abort wakes the caller.
bool wait_for_abort(StartedAbort& abort, std::chrono::milliseconds limit);

}  // namespace rueda::collectives::cuda
