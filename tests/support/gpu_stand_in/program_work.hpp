// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>

#include "tests/support/gpu_stand_in/control.hpp"

/// Work of a stream that a thread of the test's program computes, for programs in other languages. The race detection
/// treats this work like a kernel. The work comes after the earlier work of its stream. The host program knows that the
/// work has ended only after it has synchronised with the stream, or has queried an event after the work.
///
/// Threads: any thread that has a current context may call any function.
extern "C" {

/// Puts the work into the stream, and returns when the stream has come to it. The caller may then access the `count`
/// ranges of memory, and no others. Until gpu_stand_in_end_work(), the stream executes no later work. Returns null,
/// after a report, if the stream cannot execute the work.
[[nodiscard]] void* gpu_stand_in_begin_work(rueda::tests::gpu::CudaStream stream, const char* label,
                                            const rueda::tests::gpu::Range* ranges, std::size_t count);
/// Ends the work that gpu_stand_in_begin_work() returned. Call this once.
void gpu_stand_in_end_work(void* work);

/// Writes the violations that were found since the last call, one in each line, and forgets them. The text ends with a
/// null byte. It is cut off if it is longer than `size`. Returns the number of violations.
std::size_t gpu_stand_in_take_violations(char* text, std::size_t size);
}
