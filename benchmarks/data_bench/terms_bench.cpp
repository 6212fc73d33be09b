// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Measures how fast texts become numbers. The texts are like those of the DeepFM schema: each sample has 26 ids that
// follow a power law, written as eight hexadecimal digits.
// - terms_bench make FOLDER: writes texts.txt (64 batches of 1024 × 26 texts, one in each line), large.txt and
// small.txt
//   (vocabularies of a million and of 10,000 terms).
// - terms_bench hash|large|small FOLDER: hashes the texts, or looks them up in a vocabulary; prints one line of JSON.
// benchmarks/python/terms_bench.py runs this program and TensorFlow in turn.
#include <sys/resource.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "rueda/data/hash.hpp"
#include "rueda/data/vocabulary.hpp"
#include "rueda/training/random.hpp"

namespace {

using namespace rueda;
using namespace rueda::data;

constexpr std::int64_t kLarge = 1'000'000;
constexpr std::int64_t kSmall = 10'000;
constexpr int kBatches = 64;
constexpr int kTextsOfBatch = 1024 * 26;
constexpr int kPasses = 5;

/// The text of an id. Texts of neighbouring ids have nothing in common, as in the Criteo data set.
std::string text_of(std::int64_t id) {
    char text[9];
    std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(hash_text(std::to_string(id)) >> 32));
    return text;
}

/// Writes the texts of the ids below `count`. Leaves out every twentieth id, and writes no text twice.
void write_vocabulary(const std::filesystem::path& path, std::int64_t count) {
    Vocabulary written(std::vector<std::string>(), {.most_terms = count, .grows = true});
    for (std::int64_t id = 0; id < count; ++id) {
        if (id % 20 != 19) {
            std::vector<std::int64_t> found(1);
            const std::string text = text_of(id);
            const std::vector<std::int64_t> offsets = {0, static_cast<std::int64_t>(text.size())};
            written.look_up_and_count(text, offsets, found);
        }
    }
    written.merge(written.unmerged());
    written.save(path.string());
}

void make(const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    write_vocabulary(folder / "large.txt", kLarge);
    write_vocabulary(folder / "small.txt", kSmall);
    std::ofstream texts(folder / "texts.txt");
    training::Random random(1);
    for (int i = 0; i < kBatches * kTextsOfBatch; ++i) {
        texts << text_of(static_cast<std::int64_t>(std::pow(static_cast<double>(kLarge), random.uniform())) - 1)
              << '\n';
    }
}

struct TextBatch {
    std::string bytes;
    std::vector<std::int64_t> offsets = {0};
};

std::vector<TextBatch> read_texts(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::vector<TextBatch> batches(kBatches);
    std::string line;
    for (TextBatch& batch : batches) {
        for (int i = 0; i < kTextsOfBatch && std::getline(file, line); ++i) {
            batch.bytes += line;
            batch.offsets.push_back(static_cast<std::int64_t>(batch.bytes.size()));
        }
    }
    return batches;
}

/// The processor time of this process.
double processor_seconds() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

template <class Convert>
void measure(const std::vector<TextBatch>& batches, const Convert& convert) {
    std::vector<std::int64_t> ids(kTextsOfBatch);
    std::int64_t sum = 0;
    convert(batches.front(), ids);  // brings the code and the result's memory into the caches
    const double begin = processor_seconds();
    for (int pass = 0; pass < kPasses; ++pass) {
        for (const TextBatch& batch : batches) {
            convert(batch, ids);
            sum += ids.front();
        }
    }
    const double seconds = processor_seconds() - begin;
    std::printf("{\"texts\": %d, \"cpu\": %.6f, \"check\": %lld}\n", kPasses * kBatches * kTextsOfBatch, seconds,
                static_cast<long long>(sum));
}

void run(const std::string& kind, const std::filesystem::path& folder) {
    const std::vector<TextBatch> batches = read_texts(folder / "texts.txt");
    if (kind == "hash") {
        measure(batches, [](const TextBatch& batch, std::span<std::int64_t> ids) {
            hash_texts(batch.bytes, batch.offsets, {.buckets = kLarge}, ids);
        });
        return;
    }
    const Vocabulary vocabulary = Vocabulary::from_file((folder / (kind + ".txt")).string());
    measure(batches, [&](const TextBatch& batch, std::span<std::int64_t> ids) {
        vocabulary.look_up(batch.bytes, batch.offsets, ids);
    });
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> arguments(argv, argv + argc);
    try {
        if (arguments.size() == 3 && arguments[1] == "make") {
            make(arguments[2]);
            return 0;
        }
        if (arguments.size() == 3 && (arguments[1] == "hash" || arguments[1] == "large" || arguments[1] == "small")) {
            run(arguments[1], arguments[2]);
            return 0;
        }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "terms_bench: %s\n", error.what());
        return 1;
    }
    std::fprintf(stderr, "usage: terms_bench make|hash|large|small FOLDER\n");
    return 2;
}
