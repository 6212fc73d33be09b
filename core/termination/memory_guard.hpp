// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/shared_memory/control_block.hpp"
#include "base/system/logging.hpp"
#include "core/pending/tensor_table.hpp"

namespace rueda::core {

/// Names the tensor whose memory a program freed while its operation was pending. The next access to this memory is a
/// SIGSEGV or a SIGBUS, which says nothing about the tensor. So the process notes the memory of its pending operations,
/// and its handlers of the two signals search these notes. If the fault is in this memory, the handler prints a line
/// and aborts the job with this reason. Then it does what would have happened without Rueda: it calls the program's
/// handler, or the signal ends the process and leaves a core file.
///
/// The guard is a debugging aid (RUEDA_VERIFY, or a build without NDEBUG), because it takes a lock for each operation.
/// It cannot detect accesses to memory that was freed but is still mapped; small pieces of the heap usually are.
///
/// Like the handler of SIGTERM (core/termination/termination.hpp), the guard belongs to the process, and so to the one
/// Runtime of the C interface. Threads: one thread at a time may call watch_memory() and unwatch_memory(); the other
/// functions, and the handlers, run in any thread.

/// Begins to note memory, and installs the handlers. `control` must stay mapped as long as the process lives.
void watch_memory(base::ControlBlock& control, std::uint32_t members, std::uint32_t own, const base::Logger& logger);
/// Stops noting memory, and restores the previous handlers, unless other code has installed handlers meanwhile.
void unwatch_memory();
/// Whether the memory of pending operations is noted. Every operation checks this, so it is a load without a function
/// call. Relaxed: if an operation begins while this changes, its memory may not be noted, and nothing else depends on
/// it.
extern std::atomic<bool> is_memory_noted;
[[nodiscard]] inline bool notes_memory() noexcept { return is_memory_noted.load(std::memory_order_relaxed); }

/// Called when the operation of the entry begins: until note_ended(), its memory belongs to Rueda. For an operation of
/// variable size, `rows_read` and `rows_written` are the numbers of rows; otherwise they are 1. If there is no memory
/// for a note, the operation continues without one.
void note_pending(const TensorEntry& entry, std::uint64_t rows_read, std::uint64_t rows_written) noexcept;
void note_ended(const TensorEntry& entry) noexcept;

/// Returns the name of a tensor whose pending operation uses any of these bytes; "" if there is none.
[[nodiscard]] std::string pending_tensor_in(const void* memory, std::uint64_t bytes);

}  // namespace rueda::core
