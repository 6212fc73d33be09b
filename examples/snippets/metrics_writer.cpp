// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <rueda/rueda.hpp>
#include <rueda/training/metrics_writer.hpp>
#include <string>

// Writes the loss of each step as CSV, as JSON lines, and for TensorBoard. A second job goes on after step 5.
int main() {
    namespace training = rueda::training;
    using training::MetricFormat;
    rueda::init();
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("rueda-metrics-snippet-" + std::to_string(rueda::size()));
    for (const int first : {0, 5}) {  // with BackupAndRestore, this is the step at which the job goes on
        training::MetricsWriter writer(
            folder,
            {.formats = {MetricFormat::csv, MetricFormat::jsonl, MetricFormat::tensorboard}, .first_step = first});
        for (int step = first; step < first + 8; ++step) {
            writer.write(step, {{"loss", 1.0 / (1 + step)}, {"rate", 0.1}});
        }
        writer.close();
    }
    bool right = true;
    if (rueda::rank() == 0) {
        std::ifstream file(folder / "metrics.csv");
        int lines = 0;
        for (std::string line; std::getline(file, line);) {
            ++lines;
        }
        right = lines == 1 + 13;  // a line of names, and a line for each of the steps 0 to 12
        std::filesystem::remove_all(folder);
    }
    rueda::shutdown();
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
