// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "ops/groups.hpp"

#include <algorithm>
#include <array>

#include "base/assert.hpp"
#include "ops/integers-inl.hpp"

namespace rueda::ops {
namespace {

/// Space for the partial results of all groups: half of a first-level cache of 32 KiB.
constexpr std::size_t kScratchBytes = 16 * 1024;
constexpr std::size_t kLine = 64;
static_assert(kScratchBytes / kMostInGroups >= kLine);

bool is_linear(ReduceOp op) { return op == ReduceOp::sum || op == ReduceOp::average; }

}  // namespace

std::optional<Levels> levels_of(const Reduction& reduction) {
    if (reduction.op == ReduceOp::adasum || (reduction.op == ReduceOp::average && is_integer(reduction.dtype))) {
        return std::nullopt;
    }
    Levels levels{reduction, reduction};
    levels.across.prescale = 1.0;
    levels.within.postscale = 1.0;
    if (reduction.op == ReduceOp::average) {
        levels.within.op = ReduceOp::sum;
    }
    if (reduction.dtype == DType::float16 && is_linear(reduction.op)) {
        levels.within.postscale =
            reduction.op == ReduceOp::average ? reduction.postscale / reduction.divisor : reduction.postscale;
        levels.across.postscale = 1.0;
        levels.across.op = ReduceOp::sum;
    }
    return levels;
}

void reduce_in_groups(const Reduction& reduction, std::span<const std::byte* const> sources,
                      std::span<const std::uint32_t> group_sizes, std::span<std::byte* const> destinations,
                      std::size_t count, Store store) {
    const std::optional<Levels> levels = levels_of(reduction);
    if (!levels) {
        reduce(reduction, sources, destinations, count, store);
        return;
    }
    const std::size_t groups = group_sizes.size();
    RUEDA_ASSERT(groups > 0 && groups <= kMostInGroups && sources.size() <= kMostInGroups);
    RUEDA_ASSERT(!destinations.empty() && destinations.size() <= kMostInGroups);
    const std::size_t element_bytes = size_of(reduction.dtype);
    const std::size_t block_bytes = kScratchBytes / groups / kLine * kLine;
    const std::size_t block = block_bytes / element_bytes;
    alignas(kLine) std::array<std::byte, kScratchBytes> scratch;
    std::array<const std::byte*, kMostInGroups> partials;
    std::array<const std::byte*, kMostInGroups> from;
    std::array<std::byte*, kMostInGroups> to;
    std::copy(sources.begin(), sources.end(), from.begin());
    std::copy(destinations.begin(), destinations.end(), to.begin());
    for (std::size_t begin = 0; begin < count; begin += block) {
        const std::size_t length = std::min(block, count - begin);
        std::size_t first = 0;
        for (std::size_t group = 0; group < groups; ++group) {
            std::byte* const partial = scratch.data() + group * block_bytes;
            reduce(levels->within, {from.data() + first, group_sizes[group]}, {&partial, 1}, length);
            partials[group] = partial;
            first += group_sizes[group];
        }
        RUEDA_ASSERT(first == sources.size());
        // A destination may be a source. That is safe here, because all sources of this block have already been read.
        reduce(levels->across, {partials.data(), groups}, {to.data(), destinations.size()}, length, store);
        for (std::size_t i = 0; i < sources.size(); ++i) {
            from[i] += length * element_bytes;
        }
        for (std::size_t i = 0; i < destinations.size(); ++i) {
            to[i] += length * element_bytes;
        }
    }
}

}  // namespace rueda::ops
