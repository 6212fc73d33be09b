// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/files.hpp"

namespace rueda::base {

/// Returns the size in bytes of the first core's second-level cache, from the kernel's files under /sys. Returns 1 MiB
/// if the kernel does not report the size, as in many virtual machines.
[[nodiscard]] std::uint64_t second_level_cache_bytes(const FileReader& read = read_small_file);

}  // namespace rueda::base
