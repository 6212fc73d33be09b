// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdio>
#include <filesystem>
#include <rueda/rueda.hpp>
#include <rueda/training/checkpoint.hpp>
#include <string>
#include <vector>

// Trains for 50 steps and saves a checkpoint. When it is started again, with any number of ranks, it continues from the
// checkpoint:
//   ruedarun -np 2 07_resume model.safetensors
int main(int argc, char** argv) {
    const std::filesystem::path path = argc > 1 ? argv[1] : "model.safetensors";
    rueda::init();
    std::vector<double> slope = {0.0};
    const std::vector<rueda::training::NamedTensor> model = {{"slope", slope}};
    int step = 0;

    // Only rank 0 needs the file. It tells the other ranks whether the file exists, and restore_checkpoint() sends them
    // the content.
    std::vector<std::int32_t> saved = {std::filesystem::exists(path) ? 1 : 0};
    rueda::broadcast("saved", saved, /*root=*/0);
    if (saved[0] == 1) {
        step = std::stoi(rueda::training::restore_checkpoint(path, model).at("step"));
    }
    const int first = step;
    for (; step < first + 50; ++step) {
        const double x = rueda::rank() + 1;
        std::vector<double> gradient = {2.0 * x * (slope[0] * x - 3.0 * x)};
        rueda::allreduce("gradient", gradient);
        slope[0] -= 0.01 * gradient[0];
    }
    // Rank 0 writes the file, and all ranks learn whether this worked. If a rank is killed meanwhile, the old file
    // stays intact.
    rueda::training::save_checkpoint(path, model, {{"step", std::to_string(step)}});
    std::printf("rank %d: steps %d to %d, slope %.2f\n", rueda::rank(), first, step, slope[0]);
    rueda::shutdown();
}
