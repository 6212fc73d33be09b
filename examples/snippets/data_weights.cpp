// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cmath>
#include <cstdlib>
#include <rueda/data/agree.hpp>
#include <rueda/data/pipeline.hpp>
#include <rueda/rueda.hpp>
#include <string>
#include <vector>

// Averages over the ranks if their batches have different numbers of samples: 20 samples in batches of 7.
int main() {
    namespace data = rueda::data;
    rueda::init();
    std::string rows;
    for (int i = 0; i < 20; ++i) {
        rows += std::to_string(i) + "\n";
    }
    data::PipelineOptions options;
    options.sources = data::memory("rows", rows);
    options.format = data::Csv{.columns = {{"x"}}, .header = false};
    options.batch = 7;
    options.rank = rueda::rank();
    options.size = rueda::size();
    options.epochs = 1;
    options.remainder = data::Remainder::pad;  // all batches of a rank have the same number of rows
    data::Pipeline pipeline(options);

    data::Batch batch;
    std::vector<double> means;
    while (pipeline.next(batch)) {
        const auto values = batch.values<float>("x");
        const auto weights = batch.values<float>("weight");  // 1 for a sample, 0 for padding
        double sum = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
            sum += static_cast<double>(weights[i] * values[i]);
        }
        const double weight = data::average_weight(batch.counted());  // all ranks must call it in each step
        std::vector<double> gradient = {weight == 0 ? 0 : weight * sum / static_cast<double>(batch.counted())};
        rueda::allreduce("gradient", gradient, {.op = rueda::ReduceOp::average});
        means.push_back(gradient[0]);  // the mean over the samples of all ranks
    }
    rueda::shutdown();
    const std::vector<double> expected = {3, 10, 16.5};  // of 0 to 6, 7 to 13 and 14 to 19
    bool right = means.size() == expected.size();
    for (std::size_t i = 0; right && i < means.size(); ++i) {
        right = std::abs(means[i] - expected[i]) < 1e-9;
    }
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
