// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Batches in pinned memory, from which a GPU copies while the program goes on.
#pragma once

#include <memory>

#include "rueda/data/batch.hpp"
#include "rueda/rueda.h"

namespace rueda::data {

/// Returns a value for PipelineOptions::memory that puts the arrays of batches into memory that is registered with
/// NVIDIA's driver. The program may give a batch to next() right after it has started the copies to the GPU. The
/// pipeline writes to the arrays of this batch only after the GPU has done all work that was in the GPU's legacy
/// default stream when next() was called. If you copy in a stream of your own, make the default stream wait for it
/// before you call next().
///
/// `device` is the number of the GPU that takes the copies, usually rueda::local_device(). Rueda cannot check this
/// number: with a wrong number, the pipeline may write into memory while a GPU still copies from it.
///
/// When an array is destroyed, its memory stays pinned. A later array of the pipeline can use this memory again, but
/// only after the GPU has done all work that was in its legacy default stream when the first array was destroyed. The
/// size of each piece of memory is a power of two. All memory is unpinned when the pipeline and all arrays are
/// destroyed. The last destructor waits for the GPU, but at most 5 s. Memory that the GPU may still use after this time
/// stays pinned until the process ends.
///
/// Throws Unsupported if the process cannot use a GPU, and ResourceExhausted if the driver cannot pin memory. The same
/// errors come from Pipeline::next() if they happen later.
[[nodiscard]] RUEDA_API std::shared_ptr<const BatchMemory> pinned_memory(int device);

}  // namespace rueda::data
