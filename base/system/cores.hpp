// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/files.hpp"

namespace rueda::base {

/// The number of cores that this process can use at the same time: the cores of its affinity mask, but no more than the
/// CPU time that its control groups allow per second. 1.5 for a container with one and a half cores.
[[nodiscard]] double usable_cores();
/// The same, from given files and a given number of cores in the mask.
[[nodiscard]] double usable_cores(const FileReader& read, std::uint32_t cores_in_mask);

/// The number of cores in this thread's affinity mask; at least 1.
[[nodiscard]] std::uint32_t affinity_cores();

}  // namespace rueda::base
