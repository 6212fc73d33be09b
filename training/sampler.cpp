// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/sampler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "rueda/error.hpp"
#include "rueda/training/random.hpp"

namespace rueda::training {
namespace {

void check_rank(int rank, int size) {
    if (size < 1 || rank < 0 || rank >= size) {
        throw InvalidArgument(
            fmt::format("rank {} of {}: the size must be at least 1 and the rank below it", rank, size));
    }
}

void check(const SamplerOptions& options) {
    check_rank(options.rank, options.size);
    if (options.samples < 1) {
        throw InvalidArgument(fmt::format("sampler: samples is {}; it must be at least 1", options.samples));
    }
    if (options.batch < 1) {
        throw InvalidArgument(fmt::format("sampler: batch is {}; it must be at least 1", options.batch));
    }
    if (options.remainder == Remainder::drop && options.batch > options.samples) {
        throw InvalidArgument(
            fmt::format("sampler: batch is {} but there are {} samples; dropping the remainder would leave no batch",
                        options.batch, options.samples));
    }
}

}  // namespace

Range shard(std::int64_t count, int rank, int size) {
    check_rank(rank, size);
    if (count < 0) {
        throw InvalidArgument(fmt::format("shard: count is {}; it must not be negative", count));
    }
    // The first `longer` ranks have one sample more than the other ranks. The product count × rank is avoided, because
    // it could overflow.
    const std::int64_t each = count / size;
    const std::int64_t longer = count % size;
    const std::int64_t begin = each * rank + std::min<std::int64_t>(rank, longer);
    return {begin, begin + each + (rank < longer ? 1 : 0)};
}

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
    check(options);
    batches_ = options.samples / options.batch;
    if (options.remainder == Remainder::keep && options.samples % options.batch != 0) {
        ++batches_;
    }
    permutation_.resize(static_cast<std::size_t>(options.samples));
    start_epoch(0);
}

void Sampler::start_epoch(std::int64_t epoch) {
    std::iota(permutation_.begin(), permutation_.end(), std::int64_t{0});
    Random random(options_.seed, static_cast<std::uint64_t>(epoch));
    for (std::size_t left = permutation_.size(); left > 1; --left) {
        std::swap(permutation_[left - 1], permutation_[random.below(left)]);
    }
}

Range Sampler::global_batch(std::int64_t batch) const {
    if (batch < 0 || batch >= batches_) {
        throw InvalidArgument(
            fmt::format("sampler: batch {} does not exist; an epoch has {} batches", batch, batches_));
    }
    const std::int64_t begin = batch * options_.batch;
    return {begin, begin + std::min(options_.batch, options_.samples - begin)};
}

std::int64_t Sampler::batch_size(std::int64_t batch) const { return global_batch(batch).size(); }

std::span<const std::int64_t> Sampler::share(std::int64_t batch) const {
    const Range whole = global_batch(batch);
    const Range mine = shard(whole.size(), options_.rank, options_.size);
    return std::span(permutation_)
        .subspan(static_cast<std::size_t>(whole.begin + mine.begin), static_cast<std::size_t>(mine.size()));
}

}  // namespace rueda::training
