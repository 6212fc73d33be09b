// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdio>
#include <optional>
#include <rueda/data/pipeline.hpp>
#include <rueda/rueda.hpp>
#include <rueda/training/backup_and_restore.hpp>
#include <string>
#include <vector>

// Trains for 100 steps on batches of a pipeline. If the job is killed and started again, it continues after the newest
// checkpoint, with the batches that come after it.
int main(int argc, char** argv) {
    namespace data = rueda::data;
    namespace training = rueda::training;
    const std::string folder = std::string(argc > 1 ? argv[1] : "pipeline") + ".pipeline-backup";
    rueda::init();
    std::string numbers = "x\n";  // usually a file
    for (int i = 0; i < 50; ++i) {
        numbers += std::to_string(i % 7) + "\n";
    }
    data::PipelineOptions options;
    options.sources = data::memory("numbers", numbers);
    options.format = data::Csv{{{"x"}}};
    options.batch = 8;
    options.rank = rueda::rank();
    options.size = rueda::size();
    options.shuffle = 20;
    options.seed = 3;

    std::vector<double> mean = {0.0};
    std::optional<data::Pipeline> pipeline;
    const training::BackupValues position = {
        // Only rank 0 saves its position. All ranks can use it, because they take the same number of batches.
        .save =
            [&] {
                return training::Metadata{{"position", pipeline->position().to_text()}};
            },
        .restored =
            [&](const training::Metadata& saved) { options.start = data::Position::from_text(saved.at("position")); }};
    {
        training::BackupAndRestore backup(100, {.folder = folder, .every_steps = 20}, {{"mean", mean}}, {}, position);
        pipeline.emplace(options);  // after the position was restored
        data::Batch batch;
        for ([[maybe_unused]] const std::int64_t step : backup) {
            while (!pipeline->next(batch)) {
                // The epoch has ended, and the next one begins.
            }
            std::vector<double> sums = {0.0, static_cast<double>(batch.rows())};
            for (const float x : batch.values<float>("x")) {
                sums[0] += static_cast<double>(x) - mean[0];
            }
            rueda::allreduce("sums", sums, {.op = rueda::ReduceOp::sum});
            mean[0] += 0.1 * sums[0] / sums[1];
        }
    }
    pipeline.reset();
    std::printf("rank %d: mean %.3f\n", rueda::rank(), mean[0]);
    const bool right = mean[0] > 2.0 && mean[0] < 4.0;  // the mean of the numbers is 2.94
    rueda::shutdown();
    return right ? 0 : 1;
}
