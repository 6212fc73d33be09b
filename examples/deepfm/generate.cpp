// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file Writes synthetic click data as TFRecord and LibSVM files, and prints the AUC of the best possible model. The
/// program runs alone, without ranks.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "click_model.hpp"
#include "rueda/data/tfrecord.hpp"
#include "rueda/error.hpp"
#include "rueda/training/random.hpp"
#include "rueda/training/sampler.hpp"
#include "schema.hpp"

namespace {

using namespace deepfm;

struct Options {
    std::filesystem::path folder = "clicks";
    std::int64_t rows = 100000;
    std::int64_t test_rows = 20000;
    int files = 4;
    int test_files = 2;
    std::int64_t vocabulary = kVocabulary;
    std::uint64_t seed = 1;
    std::string format = "both";
};

/// Writes each sample as a line "label id:value id:value …", with ids from 1.
class LibsvmFile {
public:
    explicit LibsvmFile(const std::filesystem::path& path) : path_(path), file_(path, std::ios::binary) { check(); }

    void write(const Click& click) {
        line_ = click.clicked ? "1" : "0";
        for (std::size_t i = 0; i < click.thousandths.size(); ++i) {
            std::array<char, 8> value{};
            std::snprintf(value.data(), value.size(), "0.%03d", click.thousandths[i]);
            append(static_cast<std::int64_t>(i), value.data());
        }
        for (const std::int64_t id : click.ids) {
            append(id, "1");
        }
        line_ += '\n';
        file_.write(line_.data(), static_cast<std::streamsize>(line_.size()));
    }
    void close() {
        file_.close();
        check();
    }

private:
    void append(std::int64_t id, const char* value) {
        std::array<char, 24> digits{};
        char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), id + 1).ptr;
        line_ += ' ';
        line_.append(digits.data(), end);
        line_ += ':';
        line_ += value;
    }
    void check() const {
        if (!file_) {
            throw rueda::ResourceExhausted("writing '" + path_.string() +
                                           "': the system refused; check that the folder can be written to and that "
                                           "the disk is not full");
        }
    }

    std::filesystem::path path_;
    std::ofstream file_;
    std::string line_;
};

/// Writes samples as tf.train.Example messages with the features label, numbers and ids.
class TfrecordFile {
public:
    explicit TfrecordFile(const std::filesystem::path& path) : writer_(path.string()) {}

    void write(const Click& click) {
        std::array<float, kNumbers> numbers{};
        std::transform(click.thousandths.begin(), click.thousandths.end(), numbers.begin(),
                       [](std::int32_t each) { return static_cast<float>(each / 1000.0); });
        builder_.add("label", click.clicked ? 1.0F : 0.0F).add("numbers", numbers).add("ids", click.ids);
        writer_.write(builder_.finish());
    }
    void close() { writer_.close(); }

private:
    rueda::data::TfrecordWriter writer_;
    rueda::data::ExampleBuilder builder_;
};

/// Returns the name of a file without its extension, for example "train-003".
std::string stem_of(const std::string& part, int number) {
    std::array<char, 16> suffix{};
    std::snprintf(suffix.data(), suffix.size(), "-%03d", number);
    return part + suffix.data();
}

/// Writes one part of the data, "train" or "test", and returns the true logits and the labels of its samples. Each file
/// has its own stream of random numbers.
std::vector<Weighted> write_part(const Options& options, const ClickModel& model, const std::string& part,
                                 std::int64_t rows, int files, std::uint64_t first_stream, bool keep) {
    std::vector<Weighted> samples;
    for (int number = 0; number < files; ++number) {
        const std::string stem = (options.folder / stem_of(part, number)).string();
        std::optional<TfrecordFile> records;
        std::optional<LibsvmFile> lines;
        if (options.format != "libsvm") {
            records.emplace(stem + ".tfrecord");
        }
        if (options.format != "tfrecord") {
            lines.emplace(stem + ".libsvm");
        }
        rueda::training::Random random(options.seed, first_stream + static_cast<std::uint64_t>(number));
        const std::int64_t count = rueda::training::shard(rows, number, files).size();
        for (std::int64_t row = 0; row < count; ++row) {
            const Click click = model.draw(random);
            if (records) {
                records->write(click);
            }
            if (lines) {
                lines->write(click);
            }
            if (keep) {
                samples.push_back({click.logit, click.clicked ? 1.0 : 0.0});
            }
        }
        if (records) {
            records->close();
        }
        if (lines) {
            lines->close();
        }
    }
    return samples;
}

void make_folder(const std::filesystem::path& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) {
        throw rueda::InvalidArgument("--folder " + folder.string() + " cannot be made: " + error.message() +
                                     "; name a folder that this user may write to");
    }
}

/// Throws an error if the folder has files of an earlier run that this run would not overwrite. A pattern like train-*
/// would then match files of both runs, and the AUC that this program prints would not be the AUC of the test files.
void check_folder(const Options& options) {
    std::set<std::string> written;
    for (const auto& [part, files] : {std::pair{"train", options.files}, std::pair{"test", options.test_files}}) {
        for (int number = 0; number < files; ++number) {
            for (const char* format : {"libsvm", "tfrecord"}) {
                if (options.format == "both" || options.format == format) {
                    written.insert(stem_of(part, number) + "." + format);
                }
            }
        }
    }
    std::set<std::string> others;
    for (const auto& entry : std::filesystem::directory_iterator(options.folder)) {
        const std::string name = entry.path().filename().string();
        if ((name.rfind("train-", 0) == 0 || name.rfind("test-", 0) == 0) && written.count(name) == 0) {
            others.insert(name);
        }
    }
    if (!others.empty()) {
        throw rueda::InvalidArgument("--folder " + options.folder.string() + " has '" + *others.begin() +
                                     "', which this run would not replace, so its samples would be mixed with the new "
                                     "ones; remove the files train-* and test-*, or name another folder");
    }
}

void generate(const Options& options) {
    make_folder(options.folder);
    check_folder(options);
    const ClickModel model(options.seed, options.vocabulary);
    constexpr std::uint64_t kTestStreams = 1U << 20U;  // the number of the first test file's random stream; there are
                                                       // fewer training files, so no stream is used twice
    write_part(options, model, "train", options.rows, options.files, 0, false);
    std::vector<Weighted> samples =
        write_part(options, model, "test", options.test_rows, options.test_files, kTestStreams, true);
    const double drawn = weighted_auc(samples);
    double clicks = 0.0;
    for (Weighted& sample : samples) {
        clicks += sample.positive;
        sample.positive = 1.0 / (1.0 + std::exp(-sample.score));
    }
    std::printf("%lld training samples in %d files, %lld test samples in %d files, in %s\n",
                static_cast<long long>(options.rows), options.files, static_cast<long long>(options.test_rows),
                options.test_files, options.folder.c_str());
    std::printf("features %lld\n", static_cast<long long>(feature_count(options.vocabulary)));
    std::printf("clicks %.2f %% of the test samples\n", 100.0 * clicks / static_cast<double>(options.test_rows));
    std::printf("best AUC %.6f (expected for a model that knows the true probabilities)\n",
                weighted_auc(std::move(samples)));
    std::printf("best AUC %.6f with the labels of the test files\n", drawn);
}

/// Parses the command line. If the user asked for help, prints the help and returns nothing.
std::optional<Options> parse(int argc, const char* const* argv) {
    Options options;
    CLI::App app("Writes synthetic click data: samples of 13 numbers and 26 categories that follow a power law.",
                 "deepfm_data");
    app.option_defaults()->always_capture_default()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max() / 2;
    app.add_option("--folder", options.folder, "where to write train-*.libsvm, train-*.tfrecord, test-*…");
    app.add_option("--rows", options.rows, "training samples")->check(CLI::Range(std::int64_t{1}, kMost));
    app.add_option("--test-rows", options.test_rows, "test samples")->check(CLI::Range(std::int64_t{100}, kMost));
    app.add_option("--files", options.files, "training files of each format")->check(CLI::Range(1, 1000));
    app.add_option("--test-files", options.test_files, "test files of each format")->check(CLI::Range(1, 1000));
    app.add_option("--vocabulary", options.vocabulary, "categories in each of the 26 fields")
        ->check(CLI::Range(2, 100000000));
    app.add_option("--seed", options.seed, "the same seed writes the same files");
    app.add_option("--format", options.format, "tfrecord, libsvm or both")
        ->check(CLI::IsMember({"tfrecord", "libsvm", "both"}));
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
        std::fputs(app.help().c_str(), stdout);
        return std::nullopt;
    } catch (const CLI::ParseError& error) {
        std::string text = error.what();
        std::replace(text.begin(), text.end(), '\n', ' ');
        throw rueda::InvalidArgument(text + " (see deepfm_data --help)");
    }
    return options;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (const std::optional<Options> options = parse(argc, argv)) {
            generate(*options);
        }
        return 0;
    } catch (const rueda::Error& error) {
        std::fprintf(stderr, "deepfm_data: %s: %s\n", name_of(error.code()), error.what());
        return error.code() == rueda::ErrorCode::invalid_argument ? 2 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "deepfm_data: %s\n", error.what());
        return 1;
    }
}
