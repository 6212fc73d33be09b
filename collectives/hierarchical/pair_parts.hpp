// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/host/arena/segment_map.hpp"

namespace rueda::collectives {

/// The parts of an alltoall that this rank sends to each rank and receives from each rank, over all hosts. The ranges
/// count bytes, and the vectors are indexed by rank.
struct PairParts {
    std::vector<Range> to;    ///< ranges in this rank's input
    std::vector<Range> from;  ///< ranges in this rank's output
    const std::byte* input = nullptr;
    std::byte* output = nullptr;  ///< null if this rank stores no result
};

}  // namespace rueda::collectives
