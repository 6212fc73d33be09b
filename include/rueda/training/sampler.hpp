// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Which samples a rank trains on. No communication: every rank computes the same permutation and takes its share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rueda/rueda.h"

namespace rueda::training {

/// The range begin, begin + 1, … end − 1.
struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    [[nodiscard]] std::int64_t size() const noexcept { return end - begin; }
};

/// The share of `rank` when `count` things are divided among `size` ranks, in contiguous pieces whose lengths differ by
/// at most one. The shares of ranks 0 … size − 1, one after the other, are 0 … count − 1. The sampler uses it, and
/// evaluation can. Throws InvalidArgument unless count ≥ 0 and 0 ≤ rank < size.
[[nodiscard]] RUEDA_API Range shard(std::int64_t count, int rank, int size);

/// What happens to the samples that do not fill a last batch.
enum class Remainder : std::int32_t {
    keep,  ///< they form a last, smaller batch: every sample is seen once per epoch
    drop,  ///< they are left out of this epoch; the next permutation leaves out others
};

struct SamplerOptions {
    std::int64_t samples = 0;  ///< in the data set; ≥ 1
    std::int64_t batch = 0;    ///< samples of one step over all ranks together; ≥ 1
    std::uint64_t seed = 0;    ///< the same on every rank
    int rank = 0;              ///< usually rueda::rank()
    int size = 1;              ///< usually rueda::size()
    Remainder remainder = Remainder::keep;
};

/// Divides one permutation of the data set per epoch among the ranks. Global batch b is the same set of samples in the
/// same order for any number of ranks. Rank r has the r-th contiguous piece of it (shard). Pieces may differ by one
/// sample. If a batch has fewer samples than there are ranks, some pieces are empty; such a rank still takes part in
/// the step, with gradients of zero. So divide sums over samples by batch_size(b) and reduce with ReduceOp::sum.
/// ReduceOp::average would give the samples of uneven pieces different weights. The permutation is Fisher and Yates'
/// shuffle driven by Random(seed, epoch): the same on every platform. Threads: const members from any; start_epoch by
/// one at a time.
class RUEDA_API Sampler {
public:
    /// Starts with epoch 0. Throws InvalidArgument, naming the option, if a value is out of its range. Also throws for
    /// a batch that is larger than the data set with Remainder::drop, because no batch would be left.
    explicit Sampler(const SamplerOptions& options);

    /// Shuffles for this epoch. The result does not depend on the epochs before.
    void start_epoch(std::int64_t epoch);
    /// The number of steps in an epoch.
    [[nodiscard]] std::int64_t batches() const noexcept { return batches_; }
    /// The number of samples in global batch `batch` over all ranks. It is smaller than SamplerOptions::batch only for
    /// a kept remainder.
    [[nodiscard]] std::int64_t batch_size(std::int64_t batch) const;
    /// This rank's samples of global batch `batch`; valid until the next start_epoch. Throws InvalidArgument unless 0 ≤
    /// batch < batches().
    [[nodiscard]] std::span<const std::int64_t> share(std::int64_t batch) const;

private:
    [[nodiscard]] Range global_batch(std::int64_t batch) const;

    SamplerOptions options_;
    std::int64_t batches_ = 0;
    std::vector<std::int64_t> permutation_;
};

}  // namespace rueda::training
