// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "ops/cuda/launch.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "ops/adasum.hpp"
#include "ops/neutral.hpp"

namespace rueda::ops::cuda {
namespace {

/// Returns the number of threads that process `count` elements of `size` bytes, if each thread processes one vector.
std::uint64_t threads_for(std::uint64_t count, std::size_t size) {
    const std::uint64_t in_vector = kVectorBytes / size;
    return count / in_vector + in_vector;
}

std::uint64_t blocks_of_part(const Adasum& adasum, std::uint64_t count) {
    const std::uint64_t size = size_of(adasum.dtype);
    std::uint64_t most = 1;
    for (std::uint64_t part = 0; part < adasum.parts; ++part) {
        const std::uint64_t bytes =
            part_begin(count * size, part + 1, adasum.parts) - part_begin(count * size, part, adasum.parts);
        most = std::max(most, (bytes / size + DotProducts::kBlock - 1) / DotProducts::kBlock);
    }
    return most;
}

}  // namespace

std::uint32_t blocks_for(std::uint64_t threads) {
    const std::uint64_t blocks = (threads + kThreads - 1) / kThreads;
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(blocks, 1, kMostBlocks));
}

Launch<ReduceArguments> reduce_launch(const Reduction& reduction, std::span<const std::byte* const> sources,
                                      std::byte* destination, std::uint64_t count) {
    RUEDA_ASSERT(!sources.empty() && sources.size() <= kMostSources);
    RUEDA_ASSERT(is_defined(reduction) && reduction.op != ReduceOp::adasum);
    RUEDA_ASSERT(reduction.op != ReduceOp::average || reduction.divisor > 0);
    Launch<ReduceArguments> launch{.kernel = reduce_kernel(reduction.dtype),
                                   .geometry = {blocks_for(threads_for(count, size_of(reduction.dtype))), 1}};
    ReduceArguments& arguments = launch.arguments;
    std::copy(sources.begin(), sources.end(), arguments.sources);
    arguments.destination = destination;
    arguments.count = count;
    arguments.before = reduction.prescale;
    arguments.after = reduction.op == ReduceOp::average && is_floating_point(reduction.dtype)
                          ? reduction.postscale / reduction.divisor
                          : reduction.postscale;
    arguments.source_count = static_cast<std::uint32_t>(sources.size());
    arguments.divisor = reduction.divisor;
    arguments.op = reduction.op;
    return launch;
}

bool is_convertible(const Conversion& conversion) {
    if (conversion.from == conversion.to) {
        return conversion.factor == 1.0 || scale_kernel(conversion.from) != nullptr;
    }
    return convert_kernel(conversion.from, conversion.to) != nullptr;
}

Launch<BatchArguments> batch_launch(const Conversion& conversion, std::span<const BatchItem> items) {
    RUEDA_ASSERT(!items.empty() && items.size() <= kMostItems && is_convertible(conversion));
    const bool is_same = conversion.from == conversion.to;
    const bool is_copy = is_same && conversion.factor == 1.0;
    Launch<BatchArguments> launch;
    launch.kernel = is_copy   ? kCopyKernel
                    : is_same ? scale_kernel(conversion.from)
                              : convert_kernel(conversion.from, conversion.to);
    std::copy(items.begin(), items.end(), launch.arguments.items);
    launch.arguments.item_count = static_cast<std::uint32_t>(items.size());
    launch.arguments.factor = conversion.factor;
    const std::size_t unit = is_copy ? 1 : std::min(size_of(conversion.from), size_of(conversion.to));
    std::uint64_t threads = 0;
    for (BatchItem& item : std::span(launch.arguments.items).first(items.size())) {
        item.count *= is_copy ? size_of(conversion.from) : 1;
        threads = std::max(threads, threads_for(item.count, unit));
    }
    launch.geometry = {blocks_for(threads), launch.arguments.item_count};
    return launch;
}

Launch<FillArguments> neutral_launch(const Reduction& reduction, std::byte* destination, std::uint64_t count) {
    const std::size_t size = size_of(reduction.dtype);
    Launch<FillArguments> launch = zero_launch(destination, count * size);
    std::array<std::byte, sizeof(launch.arguments.pattern)> pattern;
    fill_neutral(reduction, pattern.data(), pattern.size() / size);
    std::memcpy(&launch.arguments.pattern, pattern.data(), pattern.size());
    return launch;
}

Launch<FillArguments> zero_launch(std::byte* destination, std::uint64_t bytes) {
    return {.kernel = kFillKernel,
            .geometry = {blocks_for(threads_for(bytes, 1)), 1},
            .arguments = {destination, bytes, 0}};
}

std::size_t adasum_workspace(const Adasum& adasum, std::size_t sources, std::uint64_t count) {
    const std::size_t pairs = pairs_of(sources);
    const std::size_t blocks = adasum.parts * blocks_of_part(adasum, count);
    return (blocks + adasum.parts) * pairs * DotProducts::kLanes + pairs + sources;
}

std::array<Launch<AdasumArguments>, 4> adasum_launches(const Adasum& adasum, std::span<const std::byte* const> sources,
                                                       std::byte* destination, std::uint64_t count, double* workspace) {
    RUEDA_ASSERT(!sources.empty() && sources.size() <= kMostSources);
    RUEDA_ASSERT(has_adasum(adasum.dtype) && adasum.parts > 0);
    const std::uint64_t pairs = pairs_of(sources.size());
    AdasumArguments arguments{};
    std::copy(sources.begin(), sources.end(), arguments.sources);
    arguments.destination = destination;
    arguments.count = count;
    arguments.blocks_of_part = blocks_of_part(adasum, count);
    arguments.factor = adasum.factor;
    arguments.source_count = static_cast<std::uint32_t>(sources.size());
    arguments.parts = adasum.parts;
    arguments.dtype = adasum.dtype;
    const std::uint64_t block_lanes = adasum.parts * arguments.blocks_of_part * DotProducts::kLanes;
    arguments.open = workspace;
    arguments.closed = arguments.open + block_lanes * pairs;
    arguments.dots = arguments.closed + adasum.parts * pairs * DotProducts::kLanes;
    arguments.weights = arguments.dots + pairs;
    const std::uint64_t groups = std::max<std::uint64_t>(1, pairs - sources.size());
    const auto launch = [&](const char* kernel, std::uint64_t threads) {
        return Launch<AdasumArguments>{kernel, {blocks_for(threads), 1}, arguments};
    };
    return {launch(adasum_products_kernel(adasum.dtype), groups * block_lanes),
            launch(kAdasumLanesKernel, adasum.parts * pairs * DotProducts::kLanes), launch(kAdasumWeightsKernel, 1),
            launch(adasum_sum_kernel(adasum.dtype), threads_for(count, size_of(adasum.dtype)))};
}

}  // namespace rueda::ops::cuda
