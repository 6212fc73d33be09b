// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "click_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace deepfm {
namespace {

// With these constants and 100 categories per field, 30 % of the samples are clicks, and the best AUC is about 0.85.
constexpr double kBias = -1.55;
constexpr double kSlope = 0.7;          ///< standard deviation of the slope of a number
constexpr double kWave = 0.1;           ///< standard deviation of the amplitude of a number's wave
constexpr double kEffect = 0.45;        ///< standard deviation of the effect of a category
constexpr double kHidden = 0.25;        ///< standard deviation of an element of a category's hidden vector
constexpr std::size_t kHiddenSize = 2;  ///< elements of a hidden vector

/// SplitMix64's function, which mixes the bits of a number (Steele, Lea and Flood 2014).
std::uint64_t mix(std::uint64_t z) {
    z += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

/// Returns a factor for the effects of a category. Rare categories have a smaller factor than frequent ones. If all
/// factors were equal, no model could come close to the best AUC, because the data have too few samples of rare
/// categories.
double strength_of(std::int64_t category) { return 1.0 / std::sqrt(1.0 + static_cast<double>(category) / 10.0); }

}  // namespace

ClickModel::ClickModel(std::uint64_t seed, std::int64_t vocabulary)
    : seed_(mix(seed)), vocabulary_(vocabulary), log_vocabulary_(std::log(static_cast<double>(vocabulary))) {
    for (std::size_t i = 0; i < slopes_.size(); ++i) {
        slopes_[i] = kSlope * normal(static_cast<std::int64_t>(i), 0);
        waves_[i] = kWave * normal(static_cast<std::int64_t>(i), 1);
    }
}

double ClickModel::normal(std::int64_t id, std::uint64_t purpose) const {
    // The sum of four uniform numbers of 16 bits is close to a normal distribution, and needs no logarithm.
    const std::uint64_t bits = mix(seed_ ^ (static_cast<std::uint64_t>(id) * 16 + purpose));
    const std::uint64_t sum = (bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48);
    return (static_cast<double>(sum) / 65536.0 - 2.0) * std::numbers::sqrt3;
}

Click ClickModel::draw(rueda::training::Random& random) const {
    Click click;
    for (std::int32_t& number : click.thousandths) {
        number = static_cast<std::int32_t>(random.below(1000));
    }
    for (std::size_t field = 0; field < click.ids.size(); ++field) {
        // The result of exp() is at least 1 and less than the size of the vocabulary. Small results are the most
        // probable.
        const auto power = static_cast<std::int64_t>(std::exp(random.uniform() * log_vocabulary_));
        click.ids[field] = kNumbers + static_cast<std::int64_t>(field) * vocabulary_ + std::min(power, vocabulary_) - 1;
    }
    click.logit = logit(click);
    click.clicked = random.uniform() < 1.0 / (1.0 + std::exp(-click.logit));
    return click;
}

double ClickModel::logit(const Click& click) const {
    double sum = kBias;
    for (std::size_t i = 0; i < click.thousandths.size(); ++i) {
        const double x = click.thousandths[i] / 1000.0;
        sum += slopes_[i] * (x - 0.5) + waves_[i] * std::cos(2.0 * std::numbers::pi * x);
    }
    // The sum of the products of all pairs is computed as in factorization machines (Rendle 2010, lemma 3.1): take the
    // square of the sum, subtract the sum of the squares, and divide by 2.
    std::array<double, kHiddenSize> sums{};
    double squares = 0.0;
    for (const std::int64_t id : click.ids) {
        const double strength = strength_of((id - kNumbers) % vocabulary_);
        sum += strength * kEffect * normal(id, 0);
        for (std::size_t k = 0; k < kHiddenSize; ++k) {
            const double hidden = strength * strength * kHidden * normal(id, k + 1);
            sums[k] += hidden;
            squares += hidden * hidden;
        }
    }
    for (const double each : sums) {
        sum += 0.5 * each * each;
    }
    return sum - 0.5 * squares;
}

double weighted_auc(std::vector<Weighted> samples) {
    std::sort(samples.begin(), samples.end(), [](const Weighted& a, const Weighted& b) { return a.score < b.score; });
    double pairs_in_order = 0.0;
    double positives = 0.0;
    double negatives = 0.0;
    double own_pairs = 0.0;
    for (const Weighted& sample : samples) {
        pairs_in_order += sample.positive * negatives;
        positives += sample.positive;
        negatives += 1.0 - sample.positive;
        own_pairs += sample.positive * (1.0 - sample.positive);
    }
    return pairs_in_order / (positives * negatives - own_pairs);
}

}  // namespace deepfm
