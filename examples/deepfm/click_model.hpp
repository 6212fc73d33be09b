// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "rueda/training/random.hpp"
#include "schema.hpp"

namespace deepfm {

/// A sample of the synthetic data.
struct Click {
    std::array<std::int32_t, kNumbers> thousandths{};  ///< the numbers × 1000, from 0 to 999
    std::array<std::int64_t, kCategories> ids{};       ///< the ids of the categories; see schema.hpp
    double logit = 0.0;                                ///< the logit of the true probability of a click
    bool clicked = false;                              ///< the label, drawn with the true probability of a click
};

/// The random process that makes the synthetic data. The true logit is a sum that DeepFM can learn: an effect of each
/// id, products of hidden vectors for each pair of categories, and waves over the numbers. The categories follow a
/// power law: category c of a field has a probability of about 1 / ((c + 1) ln vocabulary). Rare categories have
/// smaller effects than frequent ones. The effects are not stored: the effect of an id is a function of the seed and
/// the id. Threads: any thread may call const members.
class ClickModel {
public:
    ClickModel(std::uint64_t seed, std::int64_t vocabulary);

    [[nodiscard]] Click draw(rueda::training::Random& random) const;

private:
    /// Returns a pseudo-random number that depends only on the seed, the id and the purpose. Over all ids, these
    /// numbers have mean 0 and variance 1.
    [[nodiscard]] double normal(std::int64_t id, std::uint64_t purpose) const;
    [[nodiscard]] double logit(const Click& click) const;

    std::uint64_t seed_;
    std::int64_t vocabulary_;
    double log_vocabulary_;
    std::array<double, kNumbers> slopes_{};
    std::array<double, kNumbers> waves_{};
};

/// The score of a sample. The sample counts as positive with `weight`, and as negative with 1 − `weight`.
struct Weighted {
    double score = 0.0;
    double positive = 0.0;
};

/// Returns the area under the ROC curve of the samples. If the weights are the labels (0 or 1), this is the usual area.
/// If the scores and the weights are the true probabilities, this is the expected area of a model that knows these
/// probabilities. No model can be better (Bayes). The area counts only pairs of two different samples.
[[nodiscard]] double weighted_auc(std::vector<Weighted> samples);

}  // namespace deepfm
