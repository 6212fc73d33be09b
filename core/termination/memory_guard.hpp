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

/// Names the tensor if a program frees the memory of a pending operation. The next access to such memory causes a
/// SIGSEGV or a SIGBUS, which says nothing about the tensor. The process therefore notes the memory of its pending
/// operations, and its handlers of the two signals search these notes. If the fault is in noted memory, the handler
/// prints a line and aborts the job with this reason. After that, the same happens as without these handlers: the
/// program's own handler runs, or the process ends with a core file.
///
/// The guard is a debugging aid (RUEDA_VERIFY, or a build without NDEBUG), because it takes a lock for each operation.
/// The guard cannot detect accesses to freed memory that is still mapped, such as small pieces of the heap.
///
/// The guard exists once per process, like the handler of SIGTERM (core/termination/termination.hpp). It therefore
/// serves the one Runtime of the C interface. Threads: watch_memory() and unwatch_memory() in one thread at a time; the
/// other functions and the handlers in any thread.
///
/// watch_memory() begins to note memory and installs the handlers. `control` must stay mapped as long as the process
/// lives.
void watch_memory(base::ControlBlock& control, std::uint32_t members, std::uint32_t own, const base::Logger& logger);
/// Stops noting memory. Restores the previous handlers, unless other code has installed handlers since.
void unwatch_memory();
/// Whether the memory of pending operations is noted. This is a variable and not a function, because every operation
/// reads it. Accesses are relaxed. If an operation begins while the value changes, its memory may stay without a note,
/// which does no harm.
extern std::atomic<bool> is_memory_noted;
[[nodiscard]] inline bool notes_memory() noexcept { return is_memory_noted.load(std::memory_order_relaxed); }

/// Notes the memory of an operation that begins. Rueda uses this memory until note_ended(). For an operation of
/// variable size, `rows_read` and `rows_written` are the numbers of rows that are read and written. For other
/// operations, both are 1. If there is no memory for a note, the operation continues without one.
void note_pending(const TensorEntry& entry, std::uint64_t rows_read, std::uint64_t rows_written) noexcept;
void note_ended(const TensorEntry& entry) noexcept;

/// Returns the name of a tensor whose pending operation uses any of these bytes; "" if there is none.
[[nodiscard]] std::string pending_tensor_in(const void* memory, std::uint64_t bytes);

}  // namespace rueda::core
