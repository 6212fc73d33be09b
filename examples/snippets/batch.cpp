// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cmath>
#include <cstdio>
#include <rueda/rueda.hpp>
#include <rueda/training/batch.hpp>
#include <rueda/training/sampler.hpp>
#include <vector>

// Computes the mean of the numbers 0 … 99, batch by batch, with the right weight of each sample.
int main() {
    namespace training = rueda::training;
    rueda::init();
    // Rounds 31 up to a multiple of the number of workers, so that all workers have equally many samples.
    const training::Batch batch =
        training::plan_batch({.size = 31, .workers = rueda::size(), .indivisible = training::Indivisible::round_up});
    if (rueda::rank() == 0) {
        // With 2 ranks: "batch: 32 samples over 2 workers, 16 on each (rounded up from 31)".
        std::printf("%s\n", batch.summary.c_str());
    }
    // The last batch of the 100 samples is not full. It is padded with samples that do not count.
    const training::Sampler sampler({.samples = 100,
                                     .batch = batch.global,
                                     .rank = rueda::rank(),
                                     .size = rueda::size(),
                                     .remainder = training::Remainder::pad});
    bool right = true;
    double total = 0.0;
    for (std::int64_t b = 0; b < sampler.batches(); ++b) {
        const auto share = sampler.share(b);
        right = right && static_cast<std::int64_t>(share.size()) == batch.per_worker;
        const auto counted = share.first(static_cast<std::size_t>(sampler.counted(b)));
        double sum = 0.0;
        for (const std::int64_t sample : counted) {
            sum += static_cast<double>(sample);
        }
        const double mean = counted.empty() ? 0.0 : sum / static_cast<double>(counted.size());
        std::vector<double> average = {sampler.average_weight(b) * mean};
        rueda::allreduce("mean", average);  // the mean over all samples of the batch that count
        total += average[0] * static_cast<double>(sampler.batch_size(b));
    }
    right = right && std::abs(total / 100.0 - 49.5) < 1e-9;
    std::printf("rank %d: mean %.2f\n", rueda::rank(), total / 100.0);
    rueda::shutdown();
    return right ? 0 : 1;
}
