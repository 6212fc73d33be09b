// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/batch.hpp"

#include <fmt/format.h>

#include <limits>

#include "rueda/error.hpp"

namespace rueda::training {
namespace {

Batch batch_of(std::int64_t per_worker, const BatchOptions& options) {
    if (per_worker > std::numeric_limits<std::int64_t>::max() / options.workers) {
        throw InvalidArgument(fmt::format("batch: {} samples on each of {} workers do not fit into a 64-bit integer",
                                          per_worker, options.workers));
    }
    const std::int64_t global = per_worker * options.workers;
    std::string summary = fmt::format("batch: {} samples over {} worker{}, {} on each", global, options.workers,
                                      options.workers == 1 ? "" : "s", per_worker);
    if (options.meaning == BatchMeaning::global && global != options.size) {
        summary += fmt::format(" (rounded {} from {})", global < options.size ? "down" : "up", options.size);
    }
    return {.global = global, .per_worker = per_worker, .summary = std::move(summary)};
}

}  // namespace

Batch plan_batch(const BatchOptions& options) {
    if (options.size < 1) {
        throw InvalidArgument(fmt::format("batch: size is {}; it must be at least 1", options.size));
    }
    if (options.workers < 1) {
        throw InvalidArgument(fmt::format("batch: workers is {}; it must be at least 1", options.workers));
    }
    if (options.meaning == BatchMeaning::per_worker) {
        return batch_of(options.size, options);
    }
    const std::int64_t below = options.size / options.workers;
    if (options.size % options.workers == 0) {
        return batch_of(below, options);
    }
    if (options.indivisible == Indivisible::round_up) {
        return batch_of(below + 1, options);
    }
    if (options.indivisible == Indivisible::round_down && below > 0) {
        return batch_of(below, options);
    }
    // The message names each multiple as "samples on one worker × workers". For sizes near 2^63, the product
    // (below + 1) × workers could overflow.
    const std::string multiples = below == 0 ? fmt::format("the smallest is {}", options.workers)
                                             : fmt::format("next to it are {} × {} and {} × {}", below, options.workers,
                                                           below + 1, options.workers);
    throw InvalidArgument(
        fmt::format("batch: {} samples cannot be divided equally among {} workers; choose a multiple "
                    "of {}: {}",
                    options.size, options.workers, options.workers, multiples));
}

}  // namespace rueda::training
