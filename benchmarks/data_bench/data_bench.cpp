// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Measures how fast the input pipeline reads and parses files of the DeepFM schema. A sample has a label, 13 floats and
// 26 int64 ids.
// - data_bench make FOLDER ROWS: writes vectors.tfrecord (3 features), scalars.tfrecord (40 features) and rows.libsvm.
// - data_bench read KIND FILE: reads a file, prints one line of JSON. KIND is vectors, scalars or libsvm.
// benchmarks/python/data_bench.py runs this program and tf.data in turn.
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "rueda/data/pipeline.hpp"
#include "rueda/data/tfrecord.hpp"
#include "rueda/training/random.hpp"

namespace {

using namespace rueda;
using namespace rueda::data;

constexpr std::size_t kFloats = 13;
constexpr std::size_t kIds = 26;
constexpr std::int64_t kBatch = 1024;

struct Sample {
    float label = 0;
    std::array<float, kFloats> floats{};
    std::array<std::int64_t, kIds> ids{};
};

/// Makes samples like those of click data: ids follow a power law, and floats have six digits.
Sample draw(training::Random& random) {
    constexpr double kVocabulary = 1e6;
    Sample sample;
    sample.label = random.below(4) == 0 ? 1 : 0;
    for (float& value : sample.floats) {
        value = static_cast<float>(static_cast<double>(random.below(1000000)) * 1e-6);
    }
    for (std::int64_t& id : sample.ids) {
        id = static_cast<std::int64_t>(std::pow(kVocabulary, random.uniform()));
    }
    return sample;
}

std::string vectors(const Sample& sample) {
    return ExampleBuilder().add("label", sample.label).add("floats", sample.floats).add("ids", sample.ids).finish();
}

std::string scalars(const Sample& sample) {
    ExampleBuilder builder;
    builder.add("label", sample.label);
    for (std::size_t i = 0; i < kFloats; ++i) {
        builder.add("I" + std::to_string(i + 1), sample.floats[i]);
    }
    for (std::size_t i = 0; i < kIds; ++i) {
        builder.add("C" + std::to_string(i + 1), sample.ids[i]);
    }
    return builder.finish();
}

void write_line(std::ofstream& file, const Sample& sample) {
    std::array<char, 32> text{};
    file << (sample.label == 0 ? '0' : '1');
    for (std::size_t i = 0; i < kFloats; ++i) {
        std::snprintf(text.data(), text.size(), " %zu:%.6f", i + 1, static_cast<double>(sample.floats[i]));
        file << text.data();
    }
    for (const std::int64_t id : sample.ids) {
        file << ' ' << id + static_cast<std::int64_t>(kFloats) << ":1";
    }
    file << '\n';
}

void make(const std::filesystem::path& folder, std::int64_t rows) {
    std::filesystem::create_directories(folder);
    TfrecordWriter vector_file((folder / "vectors.tfrecord").string());
    TfrecordWriter scalar_file((folder / "scalars.tfrecord").string());
    std::ofstream lines(folder / "rows.libsvm");
    training::Random random(1);
    for (std::int64_t row = 0; row < rows; ++row) {
        const Sample sample = draw(random);
        vector_file.write(vectors(sample));
        scalar_file.write(scalars(sample));
        write_line(lines, sample);
    }
    vector_file.close();
    scalar_file.close();
}

Format format_of(const std::string& kind) {
    if (kind == "libsvm") {
        return Libsvm{};
    }
    std::vector<Feature> features = {{"label"}};
    if (kind == "vectors") {
        features.push_back({"floats", DType::float32, kFloats});
        features.push_back({"ids", DType::int64, kIds});
        return Examples{features};
    }
    for (std::size_t i = 0; i < kFloats; ++i) {
        features.push_back({"I" + std::to_string(i + 1)});
    }
    for (std::size_t i = 0; i < kIds; ++i) {
        features.push_back({"C" + std::to_string(i + 1), DType::int64});
    }
    return Examples{features};
}

/// The processor time of all threads of this process.
double cpu_seconds() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void read(const std::string& kind, const std::string& path) {
    PipelineOptions options{.sources = files(path), .format = format_of(kind), .batch = kBatch};
    options.epochs = 1;
    options.threads = 1;
    options.prefetch = 4;
    const auto begin = std::chrono::steady_clock::now();
    const double cpu_begin = cpu_seconds();
    Pipeline pipeline(options);
    Batch batch;
    std::int64_t rows = 0;
    double sum = 0;
    while (pipeline.next(batch)) {
        rows += batch.rows();
        sum += static_cast<double>(batch.values<float>("label")[0]);
    }
    const double cpu = cpu_seconds() - cpu_begin;
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
    std::printf("{\"rows\": %lld, \"bytes\": %lld, \"cpu\": %.6f, \"wall\": %.6f, \"check\": %.1f}\n",
                static_cast<long long>(rows), static_cast<long long>(std::filesystem::file_size(path)), cpu,
                wall.count(), sum);
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> arguments(argv, argv + argc);
    try {
        if (arguments.size() == 4 && arguments[1] == "make") {
            make(arguments[2], std::stoll(arguments[3]));
            return 0;
        }
        if (arguments.size() == 4 && arguments[1] == "read") {
            read(arguments[2], arguments[3]);
            return 0;
        }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "data_bench: %s\n", error.what());
        return 1;
    }
    std::fprintf(stderr, "usage: data_bench make FOLDER ROWS | data_bench read vectors|scalars|libsvm FILE\n");
    return 2;
}
