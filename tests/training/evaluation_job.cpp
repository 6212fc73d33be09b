// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests predict(), Mean and Auc with any number of ranks. The results must have the same bits for every number of
// ranks. The exit status is 1 if something is wrong.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "rueda/error.hpp"
#include "rueda/rueda.hpp"
#include "rueda/training/evaluation.hpp"
#include "rueda/training/random.hpp"
#include "rueda/training/sampler.hpp"

namespace {

namespace training = rueda::training;

int failures = 0;

void check(bool is_right, const char* what) {
    if (!is_right) {
        std::printf("rank %d: %s\n", rueda::rank(), what);
        ++failures;
    }
}

template <class Body>
void check_refusal(const Body& body, const char* text) {
    try {
        body();
        check(false, text);
    } catch (const rueda::InvalidArgument& error) {
        check(std::string(error.what()).find(text) != std::string::npos, error.what());
    }
}

void predict() {
    for (const std::int64_t count : {0, 1, 2, 7, 100}) {
        for (const std::int64_t batch_size : {1, 3, 1000}) {
            std::int64_t longest = 0;
            const auto function = [&](training::Range batch, std::span<float> outputs) {
                longest = std::max(longest, batch.size());
                for (std::int64_t i = 0; i < batch.size(); ++i) {
                    outputs[static_cast<std::size_t>(2 * i)] = static_cast<float>(batch.begin + i);
                    outputs[static_cast<std::size_t>(2 * i + 1)] = -1.0F;
                }
            };
            const std::vector<float> outputs = training::predict(count, function, {.batch_size = batch_size, .row = 2});
            check(static_cast<std::int64_t>(outputs.size()) == 2 * count, "the number of outputs is wrong");
            for (std::size_t i = 0; i < outputs.size() / 2; ++i) {
                check(outputs[2 * i] == static_cast<float>(i) && outputs[2 * i + 1] == -1.0F, "an output is wrong");
            }
            check(longest <= batch_size, "a batch is too large");
        }
    }
    check_refusal([] { (void)training::predict(-1, nullptr); }, "count is -1");
    check_refusal(
        [] {
            (void)training::predict(100, [](training::Range batch, std::span<float> /*outputs*/) {
                if (batch.begin == 0) {
                    throw rueda::InvalidArgument("bad input");
                }
            });
        },
        "bad input");
}

/// Adds numbers of very different sizes and compares the result with their known sum. The order of the additions
/// depends on the number of ranks.
void sum_exactly() {
    const std::vector<double> numbers = {1e308, 1.0,   5e-324, -1e308, 1e16,   0x1p-1000, -1e16,
                                         -1.0,  1e-30, 3.0,    -3.0,   -1e-30, 0.0,       7 * 0x1p-1000};
    training::ExactSum sum;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (static_cast<int>(i) % rueda::size() == rueda::rank()) {
            sum.add(numbers[i]);
        }
    }
    check(sum.over_ranks().value() == 0x1p-997, "the sum was rounded");  // 5e-324 is less than half of the last bit
                                                                         // of this sum, so rounding removes it

    training::ExactSum halves;  // 2^53 + 1 lies in the middle between 2^53 and 2^53 + 2, and is rounded to even
    halves.add(0x1p53);
    halves.add(1.0);
    check(halves.value() == 0x1p53, "a tie was not rounded to even");
    halves.add(5e-324);
    check(halves.value() == 0x1p53 + 2, "a small number did not break the tie");
    training::ExactSum negative;
    negative.add(-0x1p53);
    negative.add(-1.0);
    negative.add(-5e-324);
    check(negative.value() == -0x1p53 - 2, "a negative sum is wrong");
    negative.add(0x1p53);
    negative.add(1.0);
    check(negative.value() == -5e-324, "the smallest number was lost");
    check(training::ExactSum().value() == 0.0, "an empty sum is not 0");
    training::ExactSum largest;
    largest.add(std::numeric_limits<double>::max());
    largest.add(std::numeric_limits<double>::max());
    largest.add(-std::numeric_limits<double>::max());
    check(largest.value() == std::numeric_limits<double>::max(), "the largest number is wrong");
}

void average() {
    training::Mean mean;
    training::ExactSum sum;     // the sum over the samples of all ranks
    training::ExactSum weight;  // the total weight of these samples
    const training::Range mine = training::shard(101, rueda::rank(), rueda::size());
    for (std::int64_t i = 0; i < 101; ++i) {
        const double value = static_cast<double>(i) * 0.1;
        const double factor = i % 2 == 0 ? 2.0 : 1.0;
        sum.add(value * factor);
        weight.add(factor);
        if (i >= mine.begin && i < mine.end) {
            mean.add(value, factor);
            mean.add(std::numeric_limits<double>::quiet_NaN(), 0.0);  // padding
        }
    }
    check(mean.compute() == sum.value() / weight.value(), "the mean is wrong");
    check(std::abs(mean.compute() - 5.0) < 1e-12, "the mean is not 5");
    check(std::isnan(training::Mean().compute()), "the mean of nothing is a number");
    check_refusal([&] { mean.add(std::numeric_limits<double>::infinity()); }, "must be finite");
}

void compute_areas() {
    training::Random random(3);  // the same on all ranks
    std::vector<double> scores;
    std::vector<bool> labels;
    for (int i = 0; i < 301; ++i) {
        labels.push_back(random.uniform() < 0.3);
        // Rounded scores make ties.
        scores.push_back(std::round(50 * (random.uniform() * 0.8 + (labels.back() ? 0.2 : 0.0))) / 50);
    }
    double wins = 0.0;
    double pairs = 0.0;
    for (std::size_t p = 0; p < scores.size(); ++p) {
        for (std::size_t n = 0; n < scores.size(); ++n) {
            if (labels[p] && !labels[n]) {
                wins += scores[p] > scores[n] ? 1.0 : scores[p] == scores[n] ? 0.5 : 0.0;
                pairs += 1.0;
            }
        }
    }
    const double expected = wins / pairs;
    training::Auc exact;
    training::Auc coarse(10);
    training::Auc fine(100000);
    const training::Range mine = training::shard(301, rueda::rank(), rueda::size());
    for (auto i = static_cast<std::size_t>(mine.begin); i < static_cast<std::size_t>(mine.end); ++i) {
        for (training::Auc* each : {&exact, &coarse, &fine}) {
            each->add(scores[i], labels[i]);
        }
    }
    check(exact.compute() == expected && exact.error_bound() == 0.0, "the exact area is wrong");
    check(fine.compute() == expected, "the area is wrong although each score has a bin of its own");
    const double found = coarse.compute();
    check(std::abs(found - expected) <= coarse.error_bound() && coarse.error_bound() < 0.1, "the bound is wrong");
    training::Auc positive;
    positive.add(0.5, true);
    check(std::isnan(positive.compute()), "an area without negative samples is a number");
    check_refusal([&] { coarse.add(1.5, true); }, "must be from 0 to 1");
    check_refusal([&] { exact.add(std::numeric_limits<double>::quiet_NaN(), true); }, "a score is NaN");
    check_refusal([] { training::Auc(1); }, "bins is 1");
}

}  // namespace

int main() {
    rueda::init();
    predict();
    sum_exactly();
    average();
    compute_areas();
    rueda::shutdown();
    return failures == 0 ? 0 : 1;
}
