// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cmath>
#include <cstdio>
#include <rueda/rueda.hpp>
#include <rueda/training/evaluation.hpp>
#include <vector>

// Stands for a model: the probability that input i is positive.
float model(std::int64_t i) { return 1.0F / (1.0F + std::exp(0.1F * static_cast<float>(50 - i % 101))); }

bool label(std::int64_t i) { return (i * 7) % 101 > 40; }

int main() {
    namespace training = rueda::training;
    rueda::init();
    // The ranks predict different inputs. All ranks get all outputs, in the order of the inputs.
    const auto function = [](training::Range batch, std::span<float> outputs) {
        for (std::int64_t i = batch.begin; i < batch.end; ++i) {
            outputs[static_cast<std::size_t>(i - batch.begin)] = model(i);
        }
    };
    const std::vector<float> scores = training::predict(1001, function, {.batch_size = 64});

    // Each rank adds the samples of its share, and all ranks get the metrics over all samples.
    training::Mean accuracy;
    training::Auc exact;
    training::Auc binned(1000);
    const training::Range mine = training::shard(1001, rueda::rank(), rueda::size());
    for (std::int64_t i = mine.begin; i < mine.end; ++i) {
        accuracy.add((model(i) > 0.5F) == label(i) ? 1.0 : 0.0);
        exact.add(model(i), label(i));
        binned.add(model(i), label(i));
    }
    const double area = exact.compute();
    const double difference = std::abs(binned.compute() - area);
    if (rueda::rank() == 0) {
        std::printf("accuracy %.4f, AUC %.4f\n", accuracy.compute(), area);
    } else {
        (void)accuracy.compute();  // all ranks must call it
    }
    rueda::shutdown();
    return scores.size() == 1001 && scores[1000] == model(1000) && difference <= binned.error_bound() ? 0 : 1;
}
