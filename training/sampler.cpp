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

void check_shares(const SamplerOptions& options) {
    const std::int64_t remainder = options.samples % options.batch;
    const bool keeps = options.remainder == Remainder::keep && remainder != 0;
    const std::int64_t smallest = keeps ? remainder : options.batch;
    if (options.empty_shares == EmptyShares::allow || smallest >= options.size) {
        return;
    }
    const bool is_last = smallest != options.batch;
    throw InvalidArgument(fmt::format(
        "sampler: {} of {} samples has {} for {} ranks, so {} would get no sample; choose "
        "{}, or EmptyShares::allow",
        is_last ? "the last batch" : "a batch", options.samples, smallest, options.size, options.size - smallest,
        is_last ? "Remainder::pad, Remainder::drop, another batch size" : "a batch of at least one sample per rank"));
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
    check_shares(options);
    batches_ = options.samples / options.batch;
    if (options.remainder != Remainder::drop && options.samples % options.batch != 0) {
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
    pad_last_batch();
}

void Sampler::pad_last_batch() {
    const Range last = global_batch(batches_ - 1);
    padded_share_.clear();
    if (options_.remainder != Remainder::pad || last.size() == options_.batch) {
        return;
    }
    // Every rank gets an equal part of the samples that are left, and then padding up to its part of a full batch. The
    // padding of all ranks together consists of the first samples of the epoch. If the epoch is too short, these
    // samples are repeated.
    const Range counts = shard(last.size(), options_.rank, options_.size);
    const Range full = shard(options_.batch, options_.rank, options_.size);
    const auto begin = permutation_.begin() + static_cast<std::ptrdiff_t>(last.begin);
    padded_share_.assign(begin + counts.begin, begin + counts.end);
    for (std::int64_t place = full.begin - counts.begin; place < full.end - counts.end; ++place) {
        padded_share_.push_back(permutation_[static_cast<std::size_t>(place) % permutation_.size()]);
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
    if (!padded_share_.empty() && batch == batches_ - 1) {
        return padded_share_;
    }
    const Range mine = shard(whole.size(), options_.rank, options_.size);
    return std::span(permutation_)
        .subspan(static_cast<std::size_t>(whole.begin + mine.begin), static_cast<std::size_t>(mine.size()));
}

std::int64_t Sampler::counted(std::int64_t batch) const {
    return shard(batch_size(batch), options_.rank, options_.size).size();
}

double Sampler::average_weight(std::int64_t batch) const {
    return static_cast<double>(counted(batch)) * options_.size / static_cast<double>(batch_size(batch));
}

}  // namespace rueda::training
