// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <rueda/data/pipeline.hpp>
#include <rueda/data/tfrecord.hpp>
#include <rueda/rueda.hpp>
#include <string>
#include <vector>

// Writes two TFRecord files, and reads them twice in batches. Every rank gets its share of each batch.
int main() {
    namespace data = rueda::data;
    rueda::init();
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("rueda-data-snippet-" + std::to_string(rueda::size()));
    if (rueda::rank() == 0) {
        std::filesystem::create_directories(folder);
        for (int file = 0; file < 2; ++file) {
            data::TfrecordWriter writer((folder / ("train-" + std::to_string(file) + ".tfrecord")).string());
            for (int i = 0; i < 50; ++i) {
                const float label = i % 2 == 0 ? 1.0F : 0.0F;
                const std::vector<std::int64_t> ids = {i, file};
                writer.write(data::ExampleBuilder().add("label", label).add("ids", ids).finish());
            }
            writer.close();
        }
    }
    rueda::barrier();

    data::PipelineOptions options;
    options.sources = data::files((folder / "train-*.tfrecord").string());
    options.format = data::Examples{{{"label"}, {"ids", rueda::DType::int64, 2}}};
    options.batch = 16;  // samples in one step, over all ranks
    options.rank = rueda::rank();
    options.size = rueda::size();
    options.shuffle = 100;
    options.seed = 1;
    options.epochs = 2;
    data::Pipeline pipeline(options);

    data::Batch batch;
    std::vector<double> sums(2);  // of samples and labels
    while (!pipeline.finished()) {
        while (pipeline.next(batch)) {  // returns false at the end of each epoch
            sums[0] += static_cast<double>(batch.rows());
            for (const float label : batch.values<float>("label")) {
                sums[1] += static_cast<double>(label);
            }
        }
        const std::string state = pipeline.position().to_text();  // for the checkpoint of rank 0
        if (data::Position::from_text(state) != pipeline.position()) {
            return EXIT_FAILURE;
        }
    }
    std::printf("%s\n", pipeline.summary().c_str());

    rueda::allreduce("sums", sums, {.op = rueda::ReduceOp::sum});
    if (rueda::rank() == 0) {
        std::filesystem::remove_all(folder);
    }
    rueda::shutdown();
    return sums[0] == 200 && sums[1] == 100 ? EXIT_SUCCESS : EXIT_FAILURE;
}
