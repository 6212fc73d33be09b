// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/host/segment_map.hpp"

namespace rueda::collectives {

/// What this rank of an alltoall has for each and gets from each, over all hosts: bytes, by rank.
struct PairParts {
    std::vector<Range> to;    ///< in its input
    std::vector<Range> from;  ///< in its output
    const std::byte* input = nullptr;
    std::byte* output = nullptr;  ///< null: nothing is kept
};

}  // namespace rueda::collectives
