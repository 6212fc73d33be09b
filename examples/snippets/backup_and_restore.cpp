// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdio>
#include <rueda/rueda.hpp>
#include <rueda/training/backup_and_restore.hpp>
#include <rueda/training/random.hpp>
#include <string>
#include <vector>

// Trains for 100 steps. If the job is killed and started again, it continues after the newest checkpoint.
int main(int argc, char** argv) {
    namespace training = rueda::training;
    const std::string folder = std::string(argc > 1 ? argv[1] : "mean") + ".backup";
    rueda::init();
    std::vector<double> mean = {0.0};
    {
        training::Random random(7);  // the same numbers on all ranks
        const std::vector<training::NamedTensor> model = {{"mean", mean}};
        const std::vector<training::NamedTensor> state = {{"random", random.state()}};
        for (const std::int64_t step :
             training::BackupAndRestore(100, {.folder = folder, .every_steps = 20}, model, state)) {
            std::vector<double> gradient = {mean[0] - 3.0 - 0.001 * random.uniform()};
            rueda::allreduce("gradient", gradient);
            mean[0] -= 0.1 * gradient[0];
            if (rueda::rank() == 0 && step % 50 == 0) {
                std::printf("step %lld: mean %.4f\n", static_cast<long long>(step), mean[0]);
            }
        }
    }
    const bool right = mean[0] > 2.99 && mean[0] < 3.01;
    rueda::shutdown();
    return right ? 0 : 1;
}
