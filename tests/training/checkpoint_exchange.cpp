// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Restores a checkpoint that a Python program saved, adds 1 to each number, and saves it as the next step. Then
// tests/python/test_checkpoint_exchange.py restores it in Python. Usage: checkpoint_exchange FOLDER whole|parts
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

#include "rueda/rueda.hpp"
#include "rueda/training/checkpoint_manager.hpp"

namespace {

namespace training = rueda::training;

int exchange(const char* folder, bool in_parts) {
    std::vector<float> weight(6);
    std::vector<std::int64_t> count(1);
    std::vector<double> moment(3);
    std::vector<float> rate(2);
    const std::vector<training::NamedTensor> model = {
        {"layer.weight", rueda::TensorView(weight.data(), rueda::DType::float32, {3, 2})},
        {"layer.count", rueda::TensorView(count.data(), rueda::DType::int64, std::span<const std::int64_t>())}};
    const std::vector<training::NamedTensor> state = {{"optimizer.state.0.moment", moment}, {"rate", rate}};
    training::CheckpointManager manager({.folder = folder, .max_to_keep = 10});
    const auto restored = manager.restore(model, state);
    if (!restored) {
        std::printf("there is no checkpoint\n");
        return 1;
    }
    for (auto& [key, value] : restored->values) {
        std::printf("value %s %s\n", key.c_str(), value.c_str());
    }
    std::printf("step %d size %d metric %a\n", static_cast<int>(restored->step), restored->size,
                restored->metric.value_or(NAN));
    for (float& each : weight) {
        each += 1;
    }
    count[0] += 1;
    for (double& each : moment) {
        each += 1;
    }
    for (float& each : rate) {
        each += 1;
    }
    const training::Snapshot snapshot{.step = restored->step + 1,
                                      .model = in_parts ? std::span<const training::NamedTensor>() : model,
                                      .state = state,
                                      .values = {{"writer", "C++"}},
                                      .metric = 0.1};
    if (in_parts) {
        manager.save_parts(training::split_rows(model, rueda::rank(), rueda::size()), snapshot);
    } else {
        manager.save(snapshot);
    }
    return manager.last_failure().empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: checkpoint_exchange FOLDER whole|parts\n");
        return 2;
    }
    rueda::init();
    const int status = exchange(argv[1], std::string_view(argv[2]) == "parts");
    rueda::shutdown();
    return status;
}
