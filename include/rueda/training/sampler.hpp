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
    keep,  ///< the last samples form a smaller batch, so every sample is used once per epoch
    drop,  ///< the last samples are not used in this epoch; the next epoch has another permutation and leaves out other
           ///< samples
    pad,   ///< the last samples form a batch that is filled up with samples from the epoch's beginning, so all batches
           ///< have the same size. The program must give these added samples the weight 0, so that every sample counts
           ///< once per epoch
};

/// What happens if a batch has fewer samples than there are ranks, so that some ranks get none.
enum class EmptyShares : std::int32_t {
    refuse,  ///< the constructor throws InvalidArgument. With Remainder::pad, it counts padding as samples
    allow,   ///< the ranks get empty shares. Batch normalisation would compute NaN from an empty share
};

struct SamplerOptions {
    std::int64_t samples = 0;  ///< number of samples in the data set; ≥ 1
    std::int64_t batch = 0;    ///< number of samples in one step, over all ranks; ≥ 1
    std::uint64_t seed = 0;    ///< seed of the permutations; must be the same on every rank
    int rank = 0;              ///< usually rueda::rank()
    int size = 1;              ///< usually rueda::size()
    Remainder remainder = Remainder::keep;
    EmptyShares empty_shares = EmptyShares::refuse;
};

/// Divides the data set among the ranks, with a new permutation in each epoch. A global batch (the samples of one step
/// on all ranks) has the same samples in the same order for any number of ranks. Rank r gets the r-th contiguous piece
/// of the batch; see shard(). The lengths of the pieces may differ by one sample.
///
/// There are two ways to average gradients so that each sample has the right weight. `b` is the number of the batch;
/// all samples except padding are counted (see counted()):
///
/// - Divide the sum over the rank's counted samples by batch_size(b), and reduce with ReduceOp::sum.
/// - Multiply the mean over the rank's counted samples by average_weight(b), and reduce with ReduceOp::average. Without
///   this factor, samples in shares of different lengths would get different weights.
///
/// A rank with an empty share (EmptyShares::allow) still takes part in the step, with gradients of zero.
///
/// The permutation is Fisher and Yates' shuffle with Random(seed, epoch), so the permutation is the same on every
/// platform. Threads: any thread may call const members; only one thread at a time may call start_epoch().
class RUEDA_API Sampler {
public:
    /// Starts with epoch 0. Throws InvalidArgument if an option is out of its range; the message names the option. With
    /// Remainder::drop it also throws InvalidArgument if a batch is larger than the data set, because there would be no
    /// batch. With EmptyShares::refuse it throws InvalidArgument if some batch has fewer samples than there are ranks.
    explicit Sampler(const SamplerOptions& options);

    /// Shuffles the samples for epoch `epoch`. The result does not depend on earlier epochs.
    void start_epoch(std::int64_t epoch);
    /// Returns the number of steps in an epoch.
    [[nodiscard]] std::int64_t batches() const noexcept { return batches_; }
    /// Returns the number of samples that count in global batch `batch`, over all ranks. With Remainder::keep and
    /// Remainder::pad, this number may be smaller than SamplerOptions::batch in the last batch.
    [[nodiscard]] std::int64_t batch_size(std::int64_t batch) const;
    /// Returns this rank's samples of global batch `batch`. The result is valid until the next start_epoch(). Throws
    /// InvalidArgument unless 0 ≤ batch < batches().
    [[nodiscard]] std::span<const std::int64_t> share(std::int64_t batch) const;
    /// Returns how many samples of share(batch) count. These are the first samples of the share. The samples after them
    /// are padding; their weight in loss, gradient and metrics is 0. Only the last batch has padding, and only with
    /// Remainder::pad. The result may be 0, also with EmptyShares::refuse: the share then consists of padding alone.
    /// There is no mean over 0 samples, so the rank must contribute gradients of zero. (A quotient 0 / 0 would be NaN,
    /// and would make the reduced gradients of all ranks NaN.)
    [[nodiscard]] std::int64_t counted(std::int64_t batch) const;
    /// Returns counted(batch) × size / batch_size(batch). Multiply the mean over the rank's counted samples by this
    /// weight, and average the products over the ranks. The result is the mean over all counted samples of the batch.
    /// The weight is 1 if the shares are equal. It is 0 if counted() is 0. Do not multiply a mean by this 0, because
    /// the mean does not exist; contribute zeros.
    [[nodiscard]] double average_weight(std::int64_t batch) const;

private:
    [[nodiscard]] Range global_batch(std::int64_t batch) const;
    void pad_last_batch();

    SamplerOptions options_;
    std::int64_t batches_ = 0;
    std::vector<std::int64_t> permutation_;
    std::vector<std::int64_t> padded_share_;  ///< this rank's share of the last batch, if that batch has padding
};

}  // namespace rueda::training
