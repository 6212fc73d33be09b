// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <memory>
#include <span>

#include "collectives/communicator.hpp"
#include "collectives/cuda/plugin_interface.hpp"
#include "core/pending/tensor_table.hpp"

/// Finds out which memory of rueda_allocate_on_device() an operation uses.
namespace rueda::core {

/// Adds to `use` the memory in which the tensors of `request` lie, and returns the result. If a call consists of
/// several requests, `use` may come from another request of this call. `request` must be complete.
[[nodiscard]] std::shared_ptr<const DeviceUse> with_memory_of(std::shared_ptr<const DeviceUse> use,
                                                              const Request& request);

/// Compares what the members of a set on one host have announced about the memory of one tensor. All members get the
/// same result.
[[nodiscard]] collectives::NcclMemory agreed_memory(std::span<const collectives::Location> locations);

}  // namespace rueda::core
