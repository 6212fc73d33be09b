// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Batches in resident memory, which all ranks of a host share.
#pragma once

#include <cstddef>
#include <memory>

#include "rueda/data/batch.hpp"
#include "rueda/rueda.hpp"

namespace rueda::data {

/// Returns a value for PipelineOptions::memory that puts the arrays of batches into resident memory. The ranks can then
/// use a column in an operation without copying it first. Call rueda::init() before you make the pipeline.
inline std::shared_ptr<const BatchMemory> resident_memory() {
    return std::make_shared<const BatchMemory>(
        BatchMemory{[](std::size_t bytes) { return rueda::allocate(bytes); },
                    [](void* memory) noexcept { static_cast<void>(rueda_deallocate(memory)); }});
}

}  // namespace rueda::data
