// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "rueda/error.hpp"
#include "rueda/training/agreement.hpp"

namespace rueda::training {
namespace {

__extension__ using Wide = unsigned __int128;  // holds the number of pairs of samples, which may be more than 2^64

constexpr int kLimbBits = 32;
constexpr std::int64_t kLimbMask = (std::int64_t{1} << kLimbBits) - 1;
/// std::frexp() gives a number as m × 2^e with e ≥ −1073. m × 2^53 is an integer, so each number is a multiple of
/// 2^−(1073 + 53).
constexpr int kUnitBits = 1073 + 53;
constexpr int kFractionBits = 53;
/// A limb grows by less than 2^32 in an addition, so it stays below 2^63 for this many additions.
constexpr std::int32_t kMostAdditions = 1 << 30;

/// Gathers the numbers of all members. The result has the numbers of the first member, then those of the second, and so
/// on.
template <class Number>
std::vector<Number> gather_all(const char* name, const std::vector<Number>& mine, ProcessSet set) {
    std::vector<Number> copy = mine;
    const Handle gathered = allgather(name, TensorView(copy), {.process_set = set});
    const TensorView output = gathered.output();
    const auto* const begin = static_cast<const Number*>(output.data());
    return {begin, begin + output.shape().elements()};
}

}  // namespace

std::vector<float> predict(std::int64_t count, const PredictFunction& function, const PredictOptions& options) {
    if (count < 0 || options.batch_size < 1 || options.row < 1) {
        throw InvalidArgument(fmt::format(
            "predict: count is {}, batch_size is {} and row is {}; count must be at least 0, the others at least 1",
            count, options.batch_size, options.row));
    }
    const Range mine = shard(count, rank(), size());
    std::vector<float> outputs(static_cast<std::size_t>(mine.size() * options.row));
    run_on_every_rank([&] {
        const Busy busy("predict");
        for (std::int64_t begin = mine.begin; begin < mine.end; begin += options.batch_size) {
            const Range batch{begin, std::min(begin + options.batch_size, mine.end)};
            function(batch, std::span(outputs).subspan(static_cast<std::size_t>((begin - mine.begin) * options.row),
                                                       static_cast<std::size_t>(batch.size() * options.row)));
        }
    });
    return gather_all("rueda.training.predict", outputs, world());
}

void ExactSum::add(double value) noexcept {
    if (!std::isfinite(value) || value == 0.0) {
        return;
    }
    int exponent = 0;
    const double fraction = std::frexp(std::abs(value), &exponent);
    const auto integer = static_cast<std::uint64_t>(std::ldexp(fraction, kFractionBits));
    const int place = exponent + kUnitBits - kFractionBits;
    auto limb = static_cast<std::size_t>(place / kLimbBits);
    const std::int64_t sign = value < 0 ? -1 : 1;
    // The shifted integer has up to 85 bits, and therefore three limbs.
    for (Wide rest = Wide{integer} << (place % kLimbBits); rest != 0; rest >>= kLimbBits) {
        limbs_[limb++] += sign * static_cast<std::int64_t>(rest & static_cast<Wide>(kLimbMask));
    }
    if (++additions_ == kMostAdditions) {
        carry();
    }
}

void ExactSum::carry() noexcept {
    for (std::size_t i = 0; i + 1 < kLimbs; ++i) {
        const std::int64_t low = limbs_[i] & kLimbMask;
        limbs_[i + 1] += (limbs_[i] - low) / (kLimbMask + 1);
        limbs_[i] = low;
    }
    additions_ = 0;
}

double ExactSum::value() const noexcept {
    ExactSum magnitude = *this;
    magnitude.carry();
    const bool is_negative = magnitude.limbs_.back() < 0;
    if (is_negative) {
        for (std::int64_t& limb : magnitude.limbs_) {
            limb = -limb;
        }
        magnitude.carry();
    }
    std::size_t top = kLimbs;
    while (top > 0 && magnitude.limbs_[top - 1] == 0) {
        --top;
    }
    if (top == 0) {
        return 0.0;
    }
    // To round correctly, it is enough to know the 96 highest bits (`highest`) and whether any lower bit is 1
    // (`has_more`).
    Wide highest = 0;
    for (std::size_t i = 0; i < 3; ++i) {
        highest = highest << kLimbBits | (i < top ? static_cast<Wide>(magnitude.limbs_[top - 1 - i]) : Wide{0});
    }
    const bool has_more = std::any_of(magnitude.limbs_.begin(), magnitude.limbs_.begin() + (top > 3 ? top - 3 : 0),
                                      [](std::int64_t limb) { return limb != 0; });
    int shift = 0;
    while (highest >> 64 != 0) {
        const bool lost = (highest & 1) != 0;
        highest = highest >> 1 | (lost ? 1 : 0);  // if a bit that is shifted out is 1, the lowest bit becomes 1
        ++shift;
    }
    const auto rounded = static_cast<double>(static_cast<std::uint64_t>(highest) | (has_more ? 1U : 0U));
    const int exponent = static_cast<int>(top - 3) * kLimbBits + shift - kUnitBits;
    const double result = std::ldexp(rounded, exponent);
    return is_negative ? -result : result;
}

ExactSum ExactSum::over_ranks(ProcessSet set) const {
    ExactSum sum = *this;
    sum.carry();  // carry() makes the limbs so small that those of 2^30 ranks can be added without overflow
    allreduce("rueda.training.evaluation.sum", TensorView(sum.limbs_), {.op = ReduceOp::sum, .process_set = set});
    sum.carry();
    return sum;
}

void Mean::add(double value, double weight) {
    if (weight == 0.0) {
        return;
    }
    if (!std::isfinite(value * weight) || !std::isfinite(weight)) {
        throw InvalidArgument(fmt::format(
            "mean: a number is {} with the weight {}; both must be finite. Leave out such samples, or end the training",
            value, weight));
    }
    sum_.add(value * weight);
    weight_.add(weight);
}

double Mean::compute(ProcessSet set) const {
    const double sum = sum_.over_ranks(set).value();
    const double weight = weight_.over_ranks(set).value();
    return weight == 0.0 ? std::numeric_limits<double>::quiet_NaN() : sum / weight;
}

Auc::Auc(std::optional<std::int64_t> bins) : bins_(bins.value_or(0)) {
    if (bins && *bins < 2) {
        throw InvalidArgument(fmt::format("AUC: bins is {}; it must be at least 2, or nothing", *bins));
    }
    counts_.resize(static_cast<std::size_t>(2 * bins_));
}

void Auc::add(double score, bool is_positive) {
    if (bins_ == 0) {
        if (std::isnan(score)) {
            throw InvalidArgument("AUC: a score is NaN; the model has diverged, or the sample is not valid");
        }
        scores_.push_back(score);
        labels_.push_back(is_positive ? 1 : 0);
        return;
    }
    if (!(score >= 0.0 && score <= 1.0)) {
        throw InvalidArgument(fmt::format(
            "AUC: a score is {}; with bins it must be from 0 to 1. Apply the sigmoid function, or use no bins", score));
    }
    const auto bin = std::min(static_cast<std::int64_t>(score * static_cast<double>(bins_)), bins_ - 1);
    ++counts_[static_cast<std::size_t>(bin + (is_positive ? bins_ : 0))];
}

std::vector<Auc::Ties> Auc::counted(ProcessSet set) const {
    std::vector<std::int64_t> counts = counts_;
    allreduce("rueda.training.evaluation.counts", TensorView(counts), {.op = ReduceOp::sum, .process_set = set});
    std::vector<Ties> ties;
    const auto bins = static_cast<std::size_t>(bins_);
    for (std::size_t bin = 0; bin < bins; ++bin) {
        ties.push_back({counts[bin], counts[bins + bin]});
    }
    return ties;
}

std::vector<Auc::Ties> Auc::gathered(ProcessSet set) const {
    const std::vector<double> scores = gather_all("rueda.training.evaluation.scores", scores_, set);
    const std::vector<std::uint8_t> labels = gather_all("rueda.training.evaluation.labels", labels_, set);
    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
    std::vector<Ties> ties;
    for (std::size_t i = 0; i < order.size(); ++i) {
        if (i == 0 || scores[order[i]] != scores[order[i - 1]]) {
            ties.emplace_back();
        }
        ++(labels[order[i]] != 0 ? ties.back().positive : ties.back().negative);
    }
    return ties;
}

double Auc::compute(ProcessSet set) {
    Wide wins = 0;
    Wide draws = 0;
    std::int64_t negative = 0;
    std::int64_t positive = 0;
    for (const Ties& each : bins_ > 0 ? counted(set) : gathered(set)) {
        wins += static_cast<Wide>(each.positive) * static_cast<Wide>(negative);
        draws += static_cast<Wide>(each.positive) * static_cast<Wide>(each.negative);
        negative += each.negative;
        positive += each.positive;
    }
    const Wide pairs = static_cast<Wide>(negative) * static_cast<Wide>(positive);
    if (pairs == 0) {
        error_bound_ = std::numeric_limits<double>::quiet_NaN();
        return error_bound_;
    }
    const auto doubled = static_cast<double>(2 * pairs);
    error_bound_ = bins_ > 0 ? static_cast<double>(draws) / doubled : 0.0;
    return static_cast<double>(2 * wins + draws) / doubled;
}

}  // namespace rueda::training
