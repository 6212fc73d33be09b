// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "base/files.hpp"

namespace rueda::base {

/// Returns how many cores this process can use at the same time: the number of cores in its affinity mask, or less if
/// its control groups limit its CPU time. For example, the result is 1.5 in a container that is limited to one and a
/// half cores.
[[nodiscard]] double usable_cores();
/// Like usable_cores(), but with the given files and the given number of cores in the mask.
[[nodiscard]] double usable_cores(const FileReader& read, std::uint32_t cores_in_mask);

/// Returns the number of cores in this thread's affinity mask, at least 1.
[[nodiscard]] std::uint32_t affinity_cores();
/// Returns the number of cores in the affinity mask of a process (0: this thread). Returns nothing if the process does
/// not exist.
[[nodiscard]] std::optional<std::uint32_t> affinity_cores_of(pid_t process);

}  // namespace rueda::base
