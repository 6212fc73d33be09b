// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// Measures how much of the gradients' reduction rueda::training::DistributedOptimizer hides behind the backward pass.
// Three kinds of training steps take turns. They compute the same gradients, layer by layer, and make the same update:
//
//   overlap   gradient_ready() follows the computation of each layer
//   at end    gradient_ready() is called for all layers at the end of the backward pass
//   alone     each rank makes the step without the other ranks
//
// The time of a step is that of the slowest rank. The computation is arithmetic on 4 KiB, and each rank makes the same
// amount of it in each step. Every element of every reduced gradient is checked.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "rueda/rueda.hpp"
#include "rueda/training/distributed_optimizer.hpp"

namespace {

namespace training = rueda::training;
using Clock = std::chrono::steady_clock;

struct Options {
    std::size_t layers = 16;
    std::size_t elements = 256 << 10;
    double compute_ms = 40.0;
    int steps = 40;
    std::string json;
};

double milliseconds_since(Clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// The simulated computation of the layers. It keeps one core busy, and its data stays in the first-level cache.
class Computation {
public:
    void pass() {
        for (float& each : numbers_) {
            each = each * 0.999F + 0.001F;
        }
    }
    void compute(int passes) {
        for (int i = 0; i < passes; ++i) {
            pass();
        }
        sink_ = numbers_[0];
    }
    /// Returns the number of passes that take `ms` milliseconds on rank 0. All ranks get this number.
    [[nodiscard]] int passes_in(double ms) {
        constexpr int kTrial = 20000;
        compute(kTrial);  // the core reaches its speed
        const auto begin = Clock::now();
        compute(kTrial);
        std::vector<double> passes = {ms / milliseconds_since(begin) * kTrial};
        rueda::broadcast("passes", passes, 0);
        return static_cast<int>(passes[0]);
    }

private:
    std::array<float, 1024> numbers_{};
    volatile float sink_ = 0.0F;
};

enum Kind : std::size_t { overlap, at_end, alone, kKinds };

class Trainer {
public:
    explicit Trainer(const Options& options)
        : options_(options),
          values_(options.layers, std::vector<float>(options.elements)),
          gradients_(options.layers, Gradient(options.elements)),
          optimizer_(training::Sgd{}, parameters()),
          passes_(computation_.passes_in(options.compute_ms / static_cast<double>(options.layers))) {}

    /// Returns the time of one step on this rank, in ms.
    double step(Kind kind) {
        rueda::barrier();
        const auto begin = Clock::now();
        for (std::size_t layer = options_.layers; layer-- > 0;) {
            computation_.compute(passes_);
            std::fill(gradients_[layer].begin(), gradients_[layer].end(), value_of(layer, rueda::rank()));
            if (kind == overlap) {
                optimizer_.gradient_ready(layer);
            }
        }
        for (std::size_t layer = options_.layers; kind == at_end && layer-- > 0;) {
            optimizer_.gradient_ready(layer);
        }
        kind == alone ? optimizer_.optimizer().step(1e-3) : optimizer_.step(1e-3);
        const double time = milliseconds_since(begin);
        check(kind);
        return time;
    }

private:
    using Gradient = std::vector<float, rueda::Allocator<float>>;

    [[nodiscard]] std::vector<training::Parameter> parameters() {
        std::vector<training::Parameter> all;
        for (std::size_t i = 0; i < options_.layers; ++i) {
            all.push_back({"layer" + std::to_string(i), values_[i], gradients_[i]});
        }
        return all;
    }
    /// A small integer, so that sums are exact.
    [[nodiscard]] static float value_of(std::size_t layer, int rank) {
        return static_cast<float>(layer % 16 + static_cast<std::size_t>(rank));
    }
    void check(Kind kind) const {
        for (std::size_t layer = 0; layer < options_.layers; ++layer) {
            float expected = 0.0F;
            for (int rank = 0; rank < rueda::size(); ++rank) {
                expected += value_of(layer, rank);
            }
            expected =
                kind == alone ? value_of(layer, rueda::rank()) : expected * static_cast<float>(1.0 / rueda::size());
            const auto right = std::count(gradients_[layer].begin(), gradients_[layer].end(), expected);
            if (right != static_cast<std::ptrdiff_t>(options_.elements)) {
                throw rueda::Internal("overlap_bench: layer " + std::to_string(layer) + " has a wrong gradient");
            }
        }
    }

    Options options_;
    std::vector<std::vector<float>> values_;
    std::vector<Gradient> gradients_;
    training::DistributedOptimizer optimizer_;
    Computation computation_;
    int passes_;  ///< how many passes the computation makes for each layer
};

double median(std::vector<double> numbers) {
    std::sort(numbers.begin(), numbers.end());
    return (numbers[(numbers.size() - 1) / 2] + numbers[numbers.size() / 2]) / 2.0;
}

/// Writes the medians in ms to the file, unless `path` is empty.
void write_json(const std::string& path, const std::array<double, kKinds>& medians) {
    if (path.empty()) {
        return;
    }
    std::ofstream file(path);
    file << "{\"overlap\": " << medians[overlap] << ", \"at_end\": " << medians[at_end]
         << ", \"alone\": " << medians[alone] << "}\n";
    if (!file.flush()) {
        throw rueda::InvalidArgument("cannot write '" + path + "': give --json a file in a writable folder");
    }
}

void measure(const Options& options) {
    Trainer trainer(options);
    std::array<std::vector<double>, kKinds> times;
    for (int round = 0; round < options.steps + 3; ++round) {
        for (std::size_t kind = 0; kind < kKinds; ++kind) {
            const double time = trainer.step(static_cast<Kind>(kind));
            if (round >= 3) {  // the first rounds warm up
                times[kind].push_back(time);
            }
        }
    }
    std::array<double, kKinds> medians{};
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
        rueda::allreduce("times", times[kind], {.op = rueda::ReduceOp::max});
        medians[kind] = median(times[kind]);
    }
    if (rueda::rank() == 0) {
        std::printf("%d ranks, %zu layers of %zu elements, %g ms of computation, medians of %d steps\n", rueda::size(),
                    options.layers, options.elements, options.compute_ms, options.steps);
        std::printf("| step, ms: overlap | at end | alone | exposed, ms: overlap | at end |\n|---|---|---|---|---|\n");
        std::printf("| %.1f | %.1f | %.1f | %.1f | %.1f |\n", medians[overlap], medians[at_end], medians[alone],
                    medians[overlap] - medians[alone], medians[at_end] - medians[alone]);
        write_json(options.json, medians);
    }
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app(
        "Compares training steps whose reductions overlap with the backward pass, and steps in which they do not");
    app.add_option("--layers", options.layers, "the number of gradients")->check(CLI::PositiveNumber);
    app.add_option("--elements", options.elements, "the float32 elements of each gradient")->check(CLI::PositiveNumber);
    app.add_option("--compute-ms", options.compute_ms, "the computing time of the backward pass, in ms");
    app.add_option("--steps", options.steps, "the number of measured steps of each kind")->check(CLI::PositiveNumber);
    app.add_option("--json", options.json, "file for the results, on rank 0");
    CLI11_PARSE(app, argc, argv);
    try {
        rueda::init();
        measure(options);
        rueda::shutdown();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
