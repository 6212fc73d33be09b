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
/// and its handlers of the two signals look there. A fault in this memory becomes the reason of the abort, and a
/// printed line. Then the handler does what would have happened without Rueda: it calls the program's handler, or ends
/// the process by the signal with its core file.
///
/// The guard is for a person who looks for a mistake (RUEDA_VERIFY, or a build without NDEBUG), because it takes a lock
/// for each operation. It cannot see memory that was freed and is still mapped, as small pieces of the heap are.
///
/// Like the handler of SIGTERM (core/termination/termination.hpp) it belongs to the process, and so to the one Runtime
/// of the C interface. Threads: watch and unwatch by one thread at a time; the other functions, and the handlers, in
/// any thread.

/// Begins to note memory, and installs the handlers. `control` stays mapped as long as the process lives.
void watch_memory(base::ControlBlock& control, std::uint32_t members, std::uint32_t own, const base::Logger& logger);
/// Stops, and restores the previous handlers, unless other code has installed handlers meanwhile.
void unwatch_memory();
/// Whether the memory of pending operations is noted. Every operation asks this, so it is a load without a function
/// call. Relaxed: an operation that begins while the notes begin or end may be missing in them, and nothing else
/// depends on it.
extern std::atomic<bool> is_memory_noted;
[[nodiscard]] inline bool notes_memory() noexcept { return is_memory_noted.load(std::memory_order_relaxed); }

/// The operation of the entry begins: its memory is Rueda's until note_ended(). For an operation of variable size,
/// `rows_read` and `rows_written` are the numbers of rows; else they are 1. If there is no memory for a note, the
/// operation goes on without it.
void note_pending(const TensorEntry& entry, std::uint64_t rows_read, std::uint64_t rows_written) noexcept;
void note_ended(const TensorEntry& entry) noexcept;

/// The name of a tensor whose pending operation uses any of these bytes; "" if there is none.
[[nodiscard]] std::string pending_tensor_in(const void* memory, std::uint64_t bytes);

}  // namespace rueda::core
