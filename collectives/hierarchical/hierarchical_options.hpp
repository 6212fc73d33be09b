// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

namespace rueda::collectives {

/// Options for how tensors cross between hosts. All ranks must have the same options.
struct HierarchicalOptions {
    std::uint64_t small_bytes = 64 * 1024;  ///< tensors of at most this many bytes are combined by recursive doubling
    /// how many bytes a rank sends to other hosts at one time; if 0, Rueda chooses
    std::uint64_t network_chunk_bytes = 0;
};

}  // namespace rueda::collectives
