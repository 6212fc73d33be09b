// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/files.hpp"

namespace rueda::base {

/// The cores that this process may use at the same time: those of its affinity mask, but no more than the time that its
/// control groups allow it per second. 1.5 where a container got one and a half cores.
[[nodiscard]] double usable_cores();
/// The same from given files and a given number of cores in the mask.
[[nodiscard]] double usable_cores(const FileReader& read, std::uint32_t cores_in_mask);

/// Number of cores in this thread's affinity mask; at least 1.
[[nodiscard]] std::uint32_t affinity_cores();

}  // namespace rueda::base
