// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Prints what the helpers of rueda/training compute for many arguments. tests/python/test_training_values.py compares
// the lines with those of rueda.training. Each line begins with a case, and floating-point numbers are hexadecimal, so
// that a difference of one bit is found.
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "rueda/error.hpp"
#include "rueda/training/batch.hpp"
#include "rueda/training/curves.hpp"
#include "rueda/training/gradients.hpp"
#include "rueda/training/job_summary.hpp"
#include "rueda/training/learning_rate.hpp"
#include "rueda/training/sampler.hpp"

namespace {

namespace training = rueda::training;

constexpr std::array kScalings = {"none",         "linear",      "linear@3", "sqrt",       "sqrt@9",    "capped",
                                  "capped:1.5@4", "capped:2.75", "adasum",   "capped:0.5", "linear:2",  "linear@0",
                                  "linear@4x",    "capped:x",    "Linear",   "",           "capped@2@3"};

/// Runs `body`, and prints the text of its error, if any.
template <class Body>
void print_errors(const char* what, const Body& body) {
    try {
        body();
    } catch (const rueda::Error& error) {
        std::printf("%s error %s\n", what, error.what());
    }
}

void print_rate(const std::string& what, const training::LearningRateOptions& options) {
    print_errors(what.c_str(), [&] {
        const training::LearningRate rate(options);
        std::printf("%s %s\n", what.c_str(), rate.summary().c_str());
        for (const int step : {-1, 0, 1, 2, 7, 9, 10, 11, 15, 20, 21, 30, 39, 40, 1000}) {
            std::printf("%s %d %a\n", what.c_str(), step, rate.at(step));
        }
    });
}

void print_rates() {
    for (const char* scaling : kScalings) {
        for (const int workers : {1, 2, 3, 4, 8, 9}) {
            for (const int schedule : {0, 1, 2}) {
                const std::string what =
                    "rate '" + std::string(scaling) + "' " + std::to_string(workers) + " " + std::to_string(schedule);
                training::LearningRateOptions options{.base = 0.001, .workers = workers, .warmup_steps = 10 * schedule};
                if (schedule == 1) {
                    options.schedule = training::StepDecay{{15, 21}, 0.3};
                } else if (schedule == 2) {
                    options.schedule = training::CosineDecay{40, 0.05};
                }
                print_errors(what.c_str(), [&] { training::apply_scaling(options, scaling); });
                print_rate(what, options);
            }
        }
    }
    print_rate("base", {.base = -1.0});
    print_rate("workers", {.base = 1.0, .workers = 0});
    print_rate("warmup", {.base = 1.0, .warmup_steps = -1});
    print_rate("milestones", {.base = 1.0, .schedule = training::StepDecay{{5, 4}, 0.1}});
    print_rate("decay", {.base = 1.0, .schedule = training::StepDecay{{5}, 0.0}});
    print_rate("cosine", {.base = 1.0, .warmup_steps = 10, .schedule = training::CosineDecay{10, 0.0}});
    print_rate("floor", {.base = 1.0, .schedule = training::CosineDecay{10, 1.5}});
}

void print_momentum() {
    print_errors("momentum", [] { std::printf("momentum %a\n", training::momentum_correction(0.3, 0.1)); });
    print_errors("momentum 0", [] { std::printf("momentum 0 %a\n", training::momentum_correction(0.3, 0.0)); });
    for (const double norm : {0.5, 1.0, 3.0, -1.0, std::numeric_limits<double>::infinity()}) {
        print_errors("clip", [&] { std::printf("clip %a\n", training::clip_factor(norm, 1.0)); });
    }
    print_errors("clip", [&] { std::printf("clip %a\n", training::clip_factor(1.0, 0.0)); });
}

void print_plateau() {
    for (const bool larger : {false, true}) {
        training::Plateau plateau(
            {.factor = 0.5, .patience = 1, .threshold = 0.01, .cooldown = 1, .least = 0.2, .larger_is_better = larger});
        const double nan = std::numeric_limits<double>::quiet_NaN();
        for (const double metric : {1.0, 0.9, 0.95, 0.95, 0.9, nan, 0.899, 0.95, 2.0, 2.1, 2.0, 2.0, 2.0, 2.0, 2.0}) {
            const bool changed = plateau.observe(metric);
            std::printf("plateau %d %d %a\n", larger ? 1 : 0, changed ? 1 : 0, plateau.factor());
        }
    }
    print_errors("plateau factor", [] { training::Plateau({.factor = 1.0}); });
    print_errors("plateau patience", [] { training::Plateau({.patience = -1}); });
    print_errors("plateau threshold", [] { training::Plateau({.threshold = 1.0}); });
    print_errors("plateau cooldown", [] { training::Plateau({.cooldown = -2}); });
    print_errors("plateau least", [] { training::Plateau({.least = 1.5}); });
}

void print_batches() {
    for (const std::int64_t size : {-1, 1, 3, 4, 100, 103}) {
        for (const int workers : {0, 1, 4, 7}) {
            for (const auto rounding :
                 {training::Indivisible::refuse, training::Indivisible::round_down, training::Indivisible::round_up}) {
                for (const auto meaning : {training::BatchMeaning::global, training::BatchMeaning::per_worker}) {
                    print_errors("batch", [&] {
                        const training::Batch batch = training::plan_batch(
                            {.size = size, .meaning = meaning, .workers = workers, .indivisible = rounding});
                        std::printf("batch %lld %lld %s\n", static_cast<long long>(batch.global),
                                    static_cast<long long>(batch.per_worker), batch.summary.c_str());
                    });
                }
            }
        }
    }
}

void print_shares(const training::SamplerOptions& options) {
    training::Sampler sampler(options);
    for (const std::int64_t epoch : {0, 1, 5}) {
        sampler.start_epoch(epoch);
        for (std::int64_t batch = 0; batch < sampler.batches(); ++batch) {
            std::printf("share %lld %lld %lld %a", static_cast<long long>(batch),
                        static_cast<long long>(sampler.counted(batch)),
                        static_cast<long long>(sampler.batch_size(batch)), sampler.average_weight(batch));
            for (const std::int64_t sample : sampler.share(batch)) {
                std::printf(" %lld", static_cast<long long>(sample));
            }
            std::printf("\n");
        }
    }
}

void print_sampler() {
    for (const int size : {1, 2, 4, 7}) {
        for (const auto remainder : {training::Remainder::keep, training::Remainder::drop, training::Remainder::pad}) {
            for (const std::int64_t batch : {5, 8, 40}) {
                for (const auto empty : {training::EmptyShares::refuse, training::EmptyShares::allow}) {
                    training::SamplerOptions options{.samples = 33,
                                                     .batch = batch,
                                                     .seed = 0xFFFF'FFFF'FFFF'FFF1,
                                                     .rank = size - 1,
                                                     .size = size,
                                                     .remainder = remainder,
                                                     .empty_shares = empty};
                    print_errors("sampler", [&] { print_shares(options); });
                }
            }
        }
    }
    print_errors("sampler", [] { training::Sampler({.samples = 0, .batch = 1}); });
    print_errors("sampler", [] { training::Sampler({.samples = 1, .batch = 0}); });
    print_errors("sampler", [] { training::Sampler({.samples = 1, .batch = 1, .rank = 2, .size = 2}); });
}

void print_report(training::JobReport report) {
    std::printf("report %s\n%s\n", report.text().c_str(), report.json().c_str());
    report.has_checkpoints = true;
    report.checkpoint_failure = "the disk is full";
    std::printf("report %s\n%s\n", report.text().c_str(), report.json().c_str());
    report.checkpoint = {.step = 90, .age = 1.5, .folder = "runs/save-3-step-90"};
    report.checkpoint_failure.clear();
    std::printf("report %s\n%s\n", report.text().c_str(), report.json().c_str());
}

void print_reports() {
    print_report({.ranks = {{"a", 80.0, 100, 3200, 40.0, 0.25},
                            {"a", 79.5, 100, 3200, 2.0, 30.0},
                            {"b", 79.0, 100, 3200, 41.0, 0.5},
                            {"b", 79.0, 99, 3168, 39.0, 0.75}}});
    print_report({.ranks = {{"a", 2.5, 1, 1, 0.0, 0.5}}});
    print_report({.ranks = {{"a", 0.0, 0, 0, 0.0, 0.0}, {"a", 0.0, 0, 0, 0.0, 0.0}}});
    print_report({.ranks = {{"a", 9.0, 7, 70, 8.5, 0.0}, {"a", 9.0, 7, 70, 8.5, 0.0}, {"a", 9.0, 7, 70, 0.5, 0.0}}});
}

/// Draws nine curves, and prints the lines of the picture. The fourth point of each curve is missing.
void print_picture(const std::filesystem::path& path, double scale, bool logarithmic) {
    std::vector<training::Curve> curves;
    for (int number = 0; number < 9; ++number) {
        training::Curve& curve = curves.emplace_back();
        curve.name = "curve <" + std::to_string(number) + ">";
        for (int i = 0; i < 7; ++i) {
            const double y = static_cast<double>((i * 37 + number * 11) % 23 - 3) / 7.0 * scale;
            curve.points.push_back({i * scale, i == 3 ? std::numeric_limits<double>::quiet_NaN() : y});
        }
    }
    training::draw_curves(path, curves,
                          {.title = "a & 'b' \"c\"", .x_label = "x", .y_label = "y", .logarithmic = logarithmic});
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        std::printf("picture %s\n", line.c_str());
    }
}

void print_pictures() {
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("rueda-helper-values-" + std::to_string(::getpid()) + ".svg");
    for (const bool logarithmic : {false, true}) {
        for (const double scale : {1e-5, 1.0, 12345.0}) {
            print_picture(path, scale, logarithmic);
        }
    }
    std::filesystem::remove(path);
}

}  // namespace

int main() {
    print_rates();
    print_momentum();
    print_plateau();
    print_batches();
    print_sampler();
    print_reports();
    print_pictures();
}
