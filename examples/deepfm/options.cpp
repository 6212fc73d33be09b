// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "rueda/error.hpp"

namespace deepfm {
namespace {

constexpr const char* kExamples = R"(Examples:
  ruedarun -np 2 deepfm --train 'clicks/train-*.libsvm' --test 'clicks/test-*.libsvm'
  ruedarun -np 2 deepfm --train 'a_{epoch}' 'b_{epoch}' --fifo --format libsvm --test 'clicks/test-*.libsvm'
  ruedarun -np 2 deepfm … --replicas 4                2 processes with 4 threads each
  ruedarun -np 2 deepfm … --checkpoint-dir run        the same command continues a run that was killed)";

void describe(CLI::App& app, Options& options) {
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max() / 4;
    constexpr std::int64_t kMostIds = std::numeric_limits<std::int32_t>::max();
    constexpr std::int64_t kOne = 1;
    app.option_defaults()->always_capture_default()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    app.add_option("--train", options.train.paths, "files of training samples (patterns), or FIFOs")
        ->required()
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    app.add_option("--test", options.test.paths, "files of test samples (patterns)")
        ->required()
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    app.add_flag("--fifo", options.train.fifos,
                 "the paths of --train are FIFOs, one or more for each process; {epoch} stands for the number of the "
                 "epoch, from 0");
    app.add_option("--format", options.train.format,
                   "tfrecord, libsvm, or auto: TFRecord if the first file's name contains .tfrecord, otherwise LibSVM")
        ->check(CLI::IsMember({"auto", "tfrecord", "libsvm"}));
    app.add_option("--malformed-limit", options.train.malformed_limit,
                   "malformed records that are left out in each epoch, and of the test samples; one more is an error")
        ->check(CLI::Range(std::int64_t{0}, kMost));
    app.add_option("--features", options.features, "number of ids; the generator prints it")
        ->check(CLI::Range(kNumbers, kMostIds));
    app.add_option("--embedding", options.embedding, "elements of an embedding")
        ->check(CLI::Range(kOne, std::int64_t{1024}));
    app.add_option("--hidden", options.hidden, "sizes of the hidden layers")
        ->delimiter(',')
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->check(CLI::Range(kOne, std::int64_t{65536}));
    app.add_option_function<std::string>(
           "--library",
           [&options](const std::string& name) {
               options.library = name == "onednn" ? DenseLibrary::onednn : DenseLibrary::eigen;
           },
           "library that computes the dense layers: eigen or onednn")
        ->check(CLI::IsMember({"eigen", "onednn"}))
        ->default_str("eigen");
    app.add_option("--epochs", options.epochs, "passes over the training samples, resumed ones included")
        ->check(CLI::Range(kOne, kMost));
    app.add_option("--batch", options.batch,
                   "samples of one step, all processes together; with --replicas, a multiple of all replicas")
        ->check(CLI::Range(kOne, std::int64_t{1} << 24));
    app.add_option("--lr", options.learning_rate, "learning rate of Adagrad")->check([](const std::string& text) {
        char* end = nullptr;
        const double rate = std::strtod(text.c_str(), &end);
        return !text.empty() && *end == '\0' && rate > 0 && std::isfinite(rate)
                   ? std::string()
                   : "it is '" + text + "'; expected a number above 0";
    });
    app.add_option("--shuffle", options.shuffle, "samples that are permuted together; 0: the order of the files")
        ->check(CLI::Range(std::int64_t{0}, kMost));
    app.add_option(
           "--lanes", options.train.lanes,
           "sequences into which the training files are dealt out; with a multiple of the processes, each process "
           "reads only its own files")
        ->check(CLI::Range(kOne, std::int64_t{65536}));
    app.add_option("--seed", options.seed, "of the initial parameters and the order of the samples");
    app.add_option("--checkpoint-dir", options.checkpoint_dir,
                   "folder for checkpoints; if it has one, the run continues from the newest");
    app.add_option("--checkpoint-every", options.checkpoint_every, "steps between two checkpoints")
        ->check(CLI::Range(kOne, kMost));
    app.add_option("--curve", options.curve,
                   "CSV file for the loss of each step; a run that continues keeps the rows of the steps before");
    app.add_option("--replicas", options.replicas, "replicas of the model in each process, each on a thread of its own")
        ->check(CLI::Range(1, 256));
    app.add_option("--threads", options.threads, "threads of each process that parse the input")
        ->check(CLI::Range(1, 64));
    app.footer(kExamples);
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv, std::string& help) {
    Options options;
    CLI::App app("Trains DeepFM on click data, on any number of processes, and computes its AUC.", "deepfm");
    describe(app, options);
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
        help = app.help();
        return std::nullopt;
    } catch (const CLI::ParseError& error) {
        std::string text = error.what();
        std::replace(text.begin(), text.end(), '\n', ' ');  // CLI11's messages may have several lines
        throw rueda::InvalidArgument(text + " (see deepfm --help)");
    }
    options.test.format = options.train.format;
    options.test.malformed_limit = options.train.malformed_limit;
    return options;
}

rueda::training::Metadata course_of(const Options& options) {
    std::array<char, 32> rate{};  // std::to_chars writes the shortest text that is read as the same number
    char* const end = std::to_chars(rate.data(), rate.data() + rate.size(), options.learning_rate).ptr;
    std::string hidden;
    for (const std::int64_t size : options.hidden) {
        hidden += (hidden.empty() ? "" : ",") + std::to_string(size);
    }
    return {{"features", std::to_string(options.features)},
            {"embedding", std::to_string(options.embedding)},
            {"hidden", hidden},
            {"lr", std::string(rate.data(), end)}};
}

}  // namespace deepfm
