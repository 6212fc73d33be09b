// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/files.hpp"

namespace rueda::base {

/// The number of cores that this process can use at the same time. It is the number of cores in its affinity mask, but
/// not more than the CPU time per second that its control groups allow. Example: 1.5 for a container with one and a
/// half cores.
[[nodiscard]] double usable_cores();
/// Computes the same from the given files, for a mask with the given number of cores.
[[nodiscard]] double usable_cores(const FileReader& read, std::uint32_t cores_in_mask);

/// The number of cores in this thread's affinity mask. The result is at least 1.
[[nodiscard]] std::uint32_t affinity_cores();

}  // namespace rueda::base
