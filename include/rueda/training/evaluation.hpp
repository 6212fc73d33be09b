// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Evaluation that is divided among the ranks: predictions in the order of the inputs, and metrics over the samples of
/// all ranks. The results do not depend on the number of ranks.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "rueda/rueda.hpp"
#include "rueda/training/sampler.hpp"

namespace rueda::training {

struct PredictOptions {
    std::int64_t batch_size = 256;  ///< the largest number of inputs in one call of the PredictFunction; ≥ 1
    std::int64_t row = 1;           ///< the number of outputs for each input; ≥ 1
};

/// Computes the outputs for the inputs of `batch`, and writes them to `outputs`, one row after the other.
using PredictFunction = std::function<void(Range batch, std::span<float> outputs)>;

/// Divides the inputs 0 … count − 1 among the ranks, and returns the outputs of all inputs in their order, on all
/// ranks. All ranks must call this function. Each rank calls `function` for its share (shard()), batch by batch. Ranks
/// without inputs are allowed. `function` must not start collectives, because ranks may have different numbers of
/// batches. If `function` throws on one rank, all ranks throw, as in run_on_every_rank(). Throws InvalidArgument if
/// `count` or an option is out of its range.
[[nodiscard]] RUEDA_API std::vector<float> predict(std::int64_t count, const PredictFunction& function,
                                                   const PredictOptions& options = {});

/// A sum of numbers without rounding, as an integer with 2304 bits. Threads: one thread at a time.
class RUEDA_API ExactSum {
public:
    /// Adds a finite number. (A number that is not finite is the caller's error, and is ignored.)
    void add(double value) noexcept;
    /// Returns the sum, rounded once to the nearest number.
    [[nodiscard]] double value() const noexcept;
    /// Adds up the sums of all members of `set`, and returns the result on all of them. Collective.
    [[nodiscard]] ExactSum over_ranks(ProcessSet set = world()) const;

private:
    static constexpr std::size_t kLimbs = 72;

    void carry() noexcept;

    /// The sum is Σ limbs_[i] × 2^(32 i − 1126). After carry(), all limbs except the last are from 0 to 2^32 − 1.
    std::array<std::int64_t, kLimbs> limbs_{};
    /// the number of additions since the last carry(); a limb has room for 2^30 additions
    std::int32_t additions_ = 0;
};

/// The mean of numbers over all ranks, for example of the losses of all samples. The sums are not rounded. So the bits
/// of the result depend neither on the number of ranks nor on how the samples are divided. Threads: one thread at a
/// time.
class RUEDA_API Mean {
public:
    /// Adds a number of this rank. A number with the weight 0 (padding) is ignored. Throws InvalidArgument if the
    /// number or the weight is not finite.
    void add(double value, double weight = 1.0);
    /// Returns the mean over all members of `set`; NaN if there are no numbers. Collective.
    [[nodiscard]] double compute(ProcessSet set = world()) const;

private:
    ExactSum sum_;
    ExactSum weight_;
};

/// The area under the ROC curve over all ranks: the probability that a positive sample has a higher score than a
/// negative sample. Two equal scores count as one half. Threads: one thread at a time.
class RUEDA_API Auc {
public:
    /// Without `bins`, the area is exact, and compute() sends all scores to all ranks (9 bytes per sample). With
    /// `bins`, scores from 0 to 1 are counted in this many bins of equal width; scores in the same bin count as equal,
    /// and compute() sends only the counts. Throws InvalidArgument if `bins` is less than 2.
    explicit Auc(std::optional<std::int64_t> bins = std::nullopt);

    /// Adds a sample of this rank. Throws InvalidArgument if the score is NaN. With bins, also throws it if the score
    /// is below 0 or above 1.
    void add(double score, bool is_positive);
    /// Returns the area over all members of `set`; NaN if there are no positive or no negative samples. Collective. All
    /// members get the same bits.
    [[nodiscard]] double compute(ProcessSet set = world());
    /// Returns how far the last result can be from the exact area; 0 without bins. Each pair of a positive and a
    /// negative sample counts. The distance is at most half of the fraction of pairs whose two samples are in the same
    /// bin.
    [[nodiscard]] double error_bound() const noexcept { return error_bound_; }

private:
    /// How many negative and positive samples have the same score or, with bins, are in the same bin.
    struct Ties {
        std::int64_t negative = 0;
        std::int64_t positive = 0;
    };

    [[nodiscard]] std::vector<Ties> counted(ProcessSet set) const;
    [[nodiscard]] std::vector<Ties> gathered(ProcessSet set) const;

    std::int64_t bins_;                 ///< 0 if the area is exact
    std::vector<std::int64_t> counts_;  ///< negative samples in each bin, and then positive samples in each bin
    std::vector<double> scores_;
    std::vector<std::uint8_t> labels_;
    double error_bound_ = 0.0;
};

}  // namespace rueda::training
