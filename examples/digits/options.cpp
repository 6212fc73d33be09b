// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>

#include "rueda/error.hpp"

namespace digits {
namespace {

constexpr const char* kExamples = R"(Examples:
  ruedarun -np 2 digits                                   train with two processes
  mpirun -np 4 digits --lr-policy capped                  the rate grows with the processes, up to 1.5 times
  ruedarun -np 2 digits --epochs 30 --resume              go on from digits-run
  ruedarun -np 2 digits --device cuda                     on GPUs
  digits --data my.csv                                    alone, on lines of 64 pixels (0-16) and a label (0-9))";

const std::map<std::string, rueda::Compression> kCompressions = {
    {"none", rueda::Compression::none}, {"fp16", rueda::Compression::fp16}, {"bf16", rueda::Compression::bf16}};

void describe(CLI::App& app, Options& options, std::string& policy, std::string& compression) {
    app.option_defaults()->always_capture_default()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    app.add_option("--data", options.data, "CSV file of images, plain or gzipped");
    app.add_option("--checkpoint-dir", options.checkpoint_dir, "folder for checkpoint, curve and picture");
    app.add_flag("--resume", options.resume, "go on from the checkpoint in that folder");
    app.add_option("--epochs", options.epochs, "passes over the training images, resumed ones included")
        ->check(CLI::Range(1, 1000000));
    app.add_option("--batch", options.batch, "images of one step, all processes together")
        ->check(CLI::Range(1, 1000000));
    app.add_option("--lr", options.learning_rate, "learning rate of one process")->check(CLI::PositiveNumber);
    app.add_option("--lr-policy", policy,
                   "how the rate follows the number of processes: none, linear, sqrt, capped, or adasum (gradients are "
                   "then combined with Adasum)");
    app.add_option("--lr-cap", options.cap, "largest factor of the policy capped")->check(CLI::Range(1.0, 1e6));
    app.add_option("--warmup-epochs", options.warmup_epochs, "epochs from the rate of one process to the scaled one")
        ->check(CLI::Range(0, 1000000));
    app.add_option("--momentum", options.momentum, "share of the last update in the next")
        ->check(CLI::Range(0.0, 0.9999));
    app.add_option("--seed", options.seed, "of the initial parameters and the order of the images")
        ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()));
    app.add_option("--compression", compression,
                   "of gradients between hosts: none, fp16 or bf16; not with --lr-policy adasum")
        ->check(CLI::IsMember(kCompressions));
    app.add_option("--device", options.device, "where the network is: cpu, or cuda (needs cuDNN)")
        ->check(CLI::IsMember({"cpu", "cuda"}));
    app.footer(kExamples);
}

/// Joins the lines of a message, because CLI11's messages may have several.
std::string one_line(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv, std::string& help) {
    Options options;
    std::string policy(rueda::training::name_of(options.policy));
    std::string compression(rueda::name_of(options.compression));
    CLI::App app("Trains a small convolutional network on handwritten digits, on any number of processes.", "digits");
    describe(app, options, policy, compression);
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
        help = app.help();
        return std::nullopt;
    } catch (const CLI::ParseError& error) {
        throw rueda::InvalidArgument(one_line(error.what()) + " (see digits --help)");
    }
    options.policy = rueda::training::parse_scaling_policy(policy);
    options.compression = kCompressions.at(compression);
    if (options.policy == rueda::training::ScalingPolicy::adasum && options.compression != rueda::Compression::none) {
        throw rueda::InvalidArgument("--lr-policy adasum cannot be combined with --compression " + compression +
                                     "; leave one of them out (see digits --help)");
    }
    return options;
}

rueda::training::Metadata course_of(const Options& options) {
    const auto text = [](double value) {
        std::array<char, 32> digits{};  // std::to_chars writes the shortest text that is read as the same number
        return std::string(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
    };
    return {{"batch", std::to_string(options.batch)},
            {"lr", text(options.learning_rate)},
            {"lr-policy", std::string(name_of(options.policy))},
            {"lr-cap", text(options.cap)},
            {"warmup-epochs", std::to_string(options.warmup_epochs)},
            {"momentum", text(options.momentum)},
            {"seed", std::to_string(options.seed)},
            {"compression", rueda::name_of(options.compression)}};
}

}  // namespace digits
