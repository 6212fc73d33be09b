// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdint>
#include <cstdio>
#include <rueda/rueda.hpp>
#include <rueda/training/cores.hpp>
#include <rueda/training/job_summary.hpp>
#include <string>
#include <vector>

int main(int argc, char** argv) {
    namespace training = rueda::training;
    rueda::init();
    const training::Cores cores = training::use_cores();
    if (rueda::rank() == 0) {
        std::printf("%s\n", cores.summary.c_str());
    }

    training::JobSummary summary;
    std::vector<float> gradient(1000, 1.0F);
    for (int step = 0; step < 20; ++step) {
        const int samples = summary.waiting_for_data([] { return 32; });  // stands for a data loader
        rueda::allreduce("gradient", gradient);
        summary.step(samples);
    }
    // With CheckpointManager, add `.checkpoints = &manager`.
    const std::string file = argc > 1 ? argv[1] : "summary.json";
    const training::JobReport report = summary.finish({.json = file});
    rueda::shutdown();
    return report.steps() == 20 && report.samples() == 640 * static_cast<std::int64_t>(report.ranks.size()) ? 0 : 1;
}
