// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Decides which samples a rank trains on. This needs no communication: every rank computes the same permutation and
/// uses its own share of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rueda/rueda.h"

namespace rueda::training {

/// The numbers begin, begin + 1, … end − 1.
struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    [[nodiscard]] std::int64_t size() const noexcept { return end - begin; }
};

/// Returns the share of rank `rank` if `count` items are divided among `size` ranks. The shares are contiguous and in
/// rank order, and their lengths differ by at most one. Together they contain the items 0 … count − 1. The sampler uses
/// this function; a program can use it for evaluation. Throws InvalidArgument unless count ≥ 0 and 0 ≤ rank < size.
[[nodiscard]] RUEDA_API Range shard(std::int64_t count, int rank, int size);

/// What happens to the last samples of an epoch if they do not fill a batch.
enum class Remainder : std::int32_t {
    keep,  ///< they form a last, smaller batch, so every sample is used once per epoch
    drop,  ///< they are not used in this epoch; the next epoch has another permutation and leaves out other samples
};

struct SamplerOptions {
    std::int64_t samples = 0;  ///< number of samples in the data set; ≥ 1
    std::int64_t batch = 0;    ///< number of samples in one step, over all ranks; ≥ 1
    std::uint64_t seed = 0;    ///< must be the same on every rank
    int rank = 0;              ///< usually rueda::rank()
    int size = 1;              ///< usually rueda::size()
    Remainder remainder = Remainder::keep;
};

/// Divides the data set among the ranks, with a new permutation in each epoch. A global batch (the samples of one step
/// on all ranks) has the same samples in the same order for any number of ranks. Rank r gets the r-th contiguous piece
/// of the batch; see shard(). The lengths of the pieces may differ by one sample.
///
/// If a batch has fewer samples than there are ranks, some pieces are empty. A rank with an empty piece still takes
/// part in the step, with gradients of zero. Divide sums over samples by batch_size(b), and reduce with ReduceOp::sum.
/// With ReduceOp::average, samples in pieces of different lengths would get different weights.
///
/// The permutation is Fisher and Yates' shuffle with Random(seed, epoch), so the permutation is the same on every
/// platform. Threads: any thread may call const members; only one thread at a time may call start_epoch().
class RUEDA_API Sampler {
public:
    /// Starts with epoch 0. Throws InvalidArgument if an option is out of its range; the message names the option. With
    /// Remainder::drop it also throws InvalidArgument if a batch is larger than the data set, because there would be no
    /// batch.
    explicit Sampler(const SamplerOptions& options);

    /// Shuffles the samples for epoch `epoch`. The result does not depend on earlier epochs.
    void start_epoch(std::int64_t epoch);
    /// Returns the number of steps in an epoch.
    [[nodiscard]] std::int64_t batches() const noexcept { return batches_; }
    /// Returns the number of samples in global batch `batch`, over all ranks. With Remainder::keep, the last batch may
    /// be smaller than SamplerOptions::batch; all other batches have this size.
    [[nodiscard]] std::int64_t batch_size(std::int64_t batch) const;
    /// Returns this rank's samples of global batch `batch`. The result is valid until the next start_epoch(). Throws
    /// InvalidArgument unless 0 ≤ batch < batches().
    [[nodiscard]] std::span<const std::int64_t> share(std::int64_t batch) const;

private:
    [[nodiscard]] Range global_batch(std::int64_t batch) const;

    SamplerOptions options_;
    std::int64_t batches_ = 0;
    std::vector<std::int64_t> permutation_;
};

}  // namespace rueda::training
