// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "base/timeline/part_reader.hpp"
#include "base/timeline/timeline_part.hpp"

namespace rueda::base {

/// The numbers of ranks, operations and lost records in a merged timeline.
struct MergedTotals {
    std::size_t ranks = 0;
    TimelineEnd end;
};

/// A function that takes the next piece of the merged file's text. If it fails, the merge ends.
using WriteMerged = std::function<Status(std::string_view)>;

/// Merges the parts of a job into one timeline. The function matches the records of an operation over all hosts, so the
/// timeline shows which rank of the whole job announced the operation last. The parts are read piece by piece. The
/// function keeps an operation in memory as long as other ranks' records of this operation may still come. It never
/// keeps more than `most_held` operations, so its memory is limited. Fails with InvalidArgument if the parts are of
/// different jobs, or if two parts are of the same host.
[[nodiscard]] Result<MergedTotals> merge_parts(std::vector<PartReader>& parts, std::size_t most_held,
                                               const WriteMerged& write);

}  // namespace rueda::base
