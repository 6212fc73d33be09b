// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Prints the samples of a file for test_tensorflow.py, or writes a file:
//   data_rows read FILE    prints label, ids, and texts of each tf.train.Example
//   data_rows write FILE   writes 100 samples
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "rueda/data/pipeline.hpp"
#include "rueda/data/tfrecord.hpp"

namespace {

using namespace rueda;
using namespace rueda::data;

void print(const Batch& batch) {
    const auto ids = batch.values<std::int64_t>("ids");
    const auto labels = batch.values<float>("label");
    const auto numbers = batch.values<float>("numbers");
    const auto ends = batch.column("numbers").offsets();
    for (std::size_t row = 0; row < static_cast<std::size_t>(batch.rows()); ++row) {
        std::printf("%.9g", static_cast<double>(labels[row]));
        for (std::size_t i = 0; i < 3; ++i) {
            std::printf(" %lld", static_cast<long long>(ids[row * 3 + i]));
        }
        for (auto i = static_cast<std::size_t>(ends[row]); i < static_cast<std::size_t>(ends[row + 1]); ++i) {
            std::printf(" %.9g", static_cast<double>(numbers[i]));
        }
        std::printf(" %s\n", std::string(batch.column("text").text(row)).c_str());
    }
}

void read(const std::string& path) {
    PipelineOptions options{
        .sources = files(path),
        .format =
            Examples{{{"label"}, {"ids", DType::int64, 3}, {"numbers", DType::float32, 0}, {"text", DType::uint8, 1}}},
        .batch = 7};
    options.epochs = 1;
    Pipeline pipeline(options);
    Batch batch;
    while (pipeline.next(batch)) {
        print(batch);
    }
}

void write(const std::string& path) {
    TfrecordWriter writer(path);
    ExampleBuilder builder;
    for (std::int64_t i = 0; i < 100; ++i) {
        const std::vector<std::int64_t> ids = {i, -i, i << 40};
        const std::vector<float> numbers(static_cast<std::size_t>(i % 4), static_cast<float>(i) / 8);
        const std::vector<std::string> text = {"text " + std::to_string(i)};
        writer.write(builder.add("label", static_cast<float>(i % 2))
                         .add("ids", ids)
                         .add("numbers", numbers)
                         .add("text", text)
                         .finish());
    }
    writer.close();
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> arguments(argv, argv + argc);
    if (arguments.size() != 3) {
        return 2;
    }
    try {
        if (arguments[1] == "read") {
            read(arguments[2]);
        } else {
            write(arguments[2]);
        }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
