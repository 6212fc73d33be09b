// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <rueda/rueda.hpp>
#include <rueda/training/checkpoint_manager.hpp>
#include <string>
#include <vector>

// Saves checkpoints in the background, and reads the best one back.
int main(int argc, char** argv) {
    namespace training = rueda::training;
    const std::filesystem::path folder = std::string(argc > 1 ? argv[1] : "mean") + ".checkpoints";
    rueda::init();
    if (rueda::rank() == 0) {
        std::filesystem::remove_all(folder);  // only to start this example from the beginning
    }
    bool right = false;
    {
        std::vector<double> mean = {0.0};
        std::vector<double> momentum = {0.0};
        const std::vector<training::NamedTensor> model = {{"mean", mean}};
        const std::vector<training::NamedTensor> optimizer = {{"momentum", momentum}};
        training::CheckpointManager manager(
            {.folder = folder, .every_steps = 10, .max_to_keep = 2, .when_busy = training::WhenBusy::wait});
        for (std::int64_t step = 1; step <= 50; ++step) {
            std::vector<double> gradient = {mean[0] - 3.0};
            rueda::allreduce("gradient", gradient);
            momentum[0] = 0.5 * momentum[0] + gradient[0];
            mean[0] -= 0.1 * momentum[0];
            manager.save_when_due({.step = step,
                                   .model = model,
                                   .state = optimizer,
                                   .values = {{"learning rate", "0.1"}},
                                   .metric = std::abs(mean[0] - 3.0)});
        }
        const double trained = mean[0];
        mean[0] = 0.0;
        const std::optional<training::CheckpointInfo> best =
            manager.restore(model, optimizer, training::WhichCheckpoint::best);
        right = best && best->step == 50 && mean[0] == trained && best->values.at("learning rate") == "0.1";
        std::printf("rank %d: mean %.4f\n", rueda::rank(), mean[0]);
    }
    rueda::shutdown();
    return right ? 0 : 1;
}
