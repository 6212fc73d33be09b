// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/tasks/inline_segments.hpp"

#include <algorithm>
#include <array>

namespace rueda::collectives {
namespace {

/// The work of one step, in bytes. It is about a chunk, so that the engine often checks for an abort and for other
/// waiting tasks.
constexpr std::uint64_t kStepBytes = 128 * 1024;

void reduce(const Segment& segment, std::span<const Location> locations, const HostSet& set) {
    if (locations[set.rank].absent) {
        return;
    }
    std::array<const std::byte*, base::kMaxLocalRanks> sources{};
    for (std::uint32_t member = 0; member < set.members; ++member) {
        // The copy that this rank announced equals its input. Reading the input leaves the copy's cache lines with the
        // ranks that read them.
        sources[member] = member == set.rank ? segment.input : locations[member].payload;
    }
    set.reduce(segment, locations, {sources.data(), set.members}, {&segment.output, 1}, segment.count);
}

}  // namespace

bool all_travelled(std::span<const Location> locations) {
    return std::all_of(locations.begin(), locations.end(),
                       [](const Location& l) { return l.absent || l.payload != nullptr; });
}

void InlineSegments::step(const Batch& batch, const HostSet& set) {
    for (std::uint64_t bytes = 0; !is_done() && bytes < kStepBytes; ++done_) {
        const std::uint32_t index = segments_[done_];
        reduce(batch.segments[index], batch.locations_of(index, set.members), set);
        bytes += batch.segments[index].bytes() * set.members;
    }
}

}  // namespace rueda::collectives
