// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <rueda/rueda.hpp>
#include <rueda/training/checkpoint_manager.hpp>
#include <rueda/training/evaluation.hpp>
#include <rueda/training/rank_work.hpp>
#include <rueda/training/sampler.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace training = rueda::training;

namespace {

constexpr std::int64_t kSamples = 1000;

/// Returns whether the model is right for a sample. The sleep stands for a slow model.
bool is_right(const std::vector<float>& model, std::int64_t sample) {
    if (sample % 10 == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return static_cast<float>(sample % 100) < model[0];
}

training::Mean accuracy_of(const std::vector<float>& model, training::Range samples) {
    training::Mean accuracy;
    for (std::int64_t sample = samples.begin; sample < samples.end; ++sample) {
        accuracy.add(is_right(model, sample) ? 1.0 : 0.0);
    }
    return accuracy;
}

}  // namespace

// Evaluates a model in four ways. `rueda evaluate` starts this program with the arguments --evaluate CHECKPOINT.
int main(int argc, char** argv) {
    const std::string_view what = argc > 1 ? argv[1] : "ways";
    rueda::init();
    std::vector<float> model = {0.0F};
    const std::vector<training::NamedTensor> tensors = {{"model", model}};
    bool right = false;
    if (what == "--evaluate" && argc == 3) {  // 4. beside the training, in a job of its own
        const std::filesystem::path folder = std::filesystem::path(argv[2]).parent_path();
        right = training::CheckpointManager({.folder = folder}).restore(tensors).has_value();
        std::printf("evaluated beside the training: %.3f\n", accuracy_of(model, {0, kSamples}).compute());
    } else {
        model[0] = 75.0F;  // stands for the training
        // 1. Inline: each rank evaluates all samples. All ranks have the same model, and get the same number.
        std::int64_t correct = 0;
        for (std::int64_t sample = 0; sample < kSamples; ++sample) {
            correct += is_right(model, sample) ? 1 : 0;
        }
        // 2. Distributed: each rank evaluates its share, and all ranks get the number over all samples.
        const training::Range mine = training::shard(kSamples, rueda::rank(), rueda::size());
        const double distributed = accuracy_of(model, mine).compute();
        // 3. On rank 0. The other ranks go on, until they need rank 0.
        std::vector<double> alone = {0.0};
        training::on_rank_zero("evaluate", [&] {
            std::int64_t count = 0;
            for (std::int64_t sample = 0; sample < kSamples; ++sample) {
                count += is_right(model, sample) ? 1 : 0;
            }
            alone[0] = static_cast<double>(count) / kSamples;
        });
        rueda::broadcast("accuracy", alone, 0);  // needed only if the other ranks need the number
        // 4. Beside the training: the trainer saves a checkpoint, and `rueda evaluate` starts this program for it.
        training::CheckpointManager({.folder = std::string(what) + ".run"}).save({.step = 1, .model = tensors});
        right = correct == 750 && distributed == 0.75 && alone[0] == 0.75;
    }
    rueda::shutdown();
    return right ? 0 : 1;
}
