// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A small training job for test_resume.py: resume_job FOLDER LOSSES STEPS LAYOUT [KILLED_RANK WHEN]. Rank 0 appends the
// loss of each step to the file LOSSES. LAYOUT is "whole" (BackupAndRestore), "parts" (each rank saves its rows), or
// "pipeline" (BackupAndRestore, and a data::Pipeline whose position is saved, too).
// With the LAYOUT "uneven", the job does not train: two ranks pass different arguments, see pass_uneven_arguments().
// KILLED_RANK gets SIGKILL at the beginning of step WHEN. If WHEN ends with "us", the rank gets SIGKILL this many
// microseconds after the first step.
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <rueda/data/pipeline.hpp>
#include <rueda/rueda.hpp>
#include <rueda/training/backup_and_restore.hpp>
#include <rueda/training/random.hpp>
#include <rueda/training/sampler.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using rueda::TensorView;
namespace training = rueda::training;

constexpr std::size_t kFeatures = 7;

struct Arguments {
    std::string folder;
    std::string losses;
    std::int64_t steps;
    std::string layout;
    int killed_rank = -1;
    std::string when{};
};

/// Fits a linear model by SGD with momentum. The labels get noise from a generator that lives as long as the job.
class Trainer {
public:
    explicit Trainer(const Arguments& arguments)
        : arguments_(arguments), losses_(arguments.losses, std::ios::app), random_(5) {}

    [[nodiscard]] std::vector<training::NamedTensor> model() { return {{"weights", weights_}}; }
    [[nodiscard]] std::vector<training::NamedTensor> state() {
        return {{"momentum", momentum_}, {"random", random_.state()}};
    }

    /// Makes the steps use the samples of a pipeline that begins at this position. The pipeline's epochs do not end
    /// with a full batch, and have another length than the sampler's epochs.
    void open_pipeline(const rueda::data::Position& start) {
        std::string text = "sample\n";
        for (int sample = 0; sample < 70; ++sample) {
            text += std::to_string(sample) + "\n";
        }
        rueda::data::PipelineOptions options;
        options.sources = rueda::data::memory("samples", text);
        options.format = rueda::data::Csv{{{"sample", rueda::DType::int64}}};
        options.batch = 16;
        options.rank = rueda::rank();
        options.size = rueda::size();
        options.seed = 9;
        options.shuffle = 30;
        options.start = start;
        pipeline_.emplace(std::move(options));
    }
    [[nodiscard]] std::string position() const { return pipeline_->position().to_text(); }

    void run_step(std::int64_t step) {
        die_if_asked(step);
        if (step % sampler_.batches() == 0 || !has_begun_) {
            sampler_.start_epoch(step / sampler_.batches());
            has_begun_ = true;
        }
        const double noise = 0.01 * (random_.uniform() - 0.5);
        std::vector<double> sums(kFeatures + 1);  // the gradient, and then the loss
        for (const std::int64_t sample : pipeline_ ? next_samples() : share_of(step)) {
            add_sample(static_cast<std::uint64_t>(sample), noise, sums);
        }
        rueda::allreduce("sums", sums, {.op = rueda::ReduceOp::sum});
        for (std::size_t i = 0; i < kFeatures; ++i) {
            momentum_[i] = 0.8 * momentum_[i] + sums[i] / 16.0;
            weights_[i] -= 0.5 * momentum_[i];
        }
        if (rueda::rank() == 0) {
            char line[64];
            std::snprintf(line, sizeof line, "%lld %a\n", static_cast<long long>(step), sums[kFeatures]);
            losses_ << line << std::flush;
        }
    }

private:
    std::vector<std::int64_t> next_samples() {
        while (!pipeline_->next(batch_)) {
            // next() returned false, because an epoch has ended; the next call begins the next epoch
        }
        const auto samples = batch_.values<std::int64_t>("sample");
        return {samples.begin(), samples.end()};
    }
    std::vector<std::int64_t> share_of(std::int64_t step) {
        const auto share = sampler_.share(step % sampler_.batches());
        return {share.begin(), share.end()};
    }

    void die_if_asked(std::int64_t step) const {
        if (arguments_.killed_rank != rueda::rank()) {
            return;
        }
        if (arguments_.when == std::to_string(step)) {
            ::kill(::getpid(), SIGKILL);
        }
        if (arguments_.when.ends_with("us") && !has_begun_) {
            std::thread([microseconds = std::stoi(arguments_.when)] {
                ::usleep(static_cast<useconds_t>(microseconds));
                ::kill(::getpid(), SIGKILL);
            }).detach();
        }
    }

    void add_sample(std::uint64_t sample, double noise, std::vector<double>& sums) const {
        training::Random features(17, sample);
        double error = noise;
        std::vector<double> x(kFeatures);
        for (std::size_t i = 0; i < kFeatures; ++i) {
            x[i] = features.uniform() - 0.5;
            error += (weights_[i] - static_cast<double>(i)) * x[i];
        }
        for (std::size_t i = 0; i < kFeatures; ++i) {
            sums[i] += error * x[i];
        }
        sums[kFeatures] += error * error;
    }

    const Arguments& arguments_;
    std::ofstream losses_;
    std::vector<double> weights_ = std::vector<double>(kFeatures);
    std::vector<double> momentum_ = std::vector<double>(kFeatures);
    training::Random random_;
    training::Sampler sampler_{{.samples = 96, .batch = 16, .seed = 3, .rank = rueda::rank(), .size = rueda::size()}};
    std::optional<rueda::data::Pipeline> pipeline_;
    rueda::data::Batch batch_;
    bool has_begun_ = false;
};

void say_where_it_begins(std::int64_t step) {
    if (rueda::rank() == 0) {
        std::printf("begins at step %lld\n", static_cast<long long>(step));
        std::fflush(stdout);
    }
}

void train_whole(Trainer& trainer, const Arguments& arguments) {
    training::BackupAndRestore backup(
        arguments.steps, {.folder = arguments.folder, .every_steps = 1, .when_busy = training::WhenBusy::wait},
        trainer.model(), trainer.state());
    say_where_it_begins(backup.first_step());
    for (const std::int64_t step : backup) {
        trainer.run_step(step);
    }
}

void train_with_pipeline(Trainer& trainer, const Arguments& arguments) {
    rueda::data::Position start;
    const training::BackupValues values = {
        .save =
            [&] {
                return training::Metadata{{"position", trainer.position()}};
            },
        .restored =
            [&](const training::Metadata& saved) { start = rueda::data::Position::from_text(saved.at("position")); }};
    training::BackupAndRestore backup(
        arguments.steps, {.folder = arguments.folder, .every_steps = 1, .when_busy = training::WhenBusy::wait},
        trainer.model(), trainer.state(), values);
    say_where_it_begins(backup.first_step());
    trainer.open_pipeline(start);
    for (const std::int64_t step : backup) {
        trainer.run_step(step);
    }
}

/// Reads only this rank's rows of the model, and gets the other rows from the other ranks.
std::int64_t restore_rows(training::CheckpointManager& manager, Trainer& trainer) {
    const std::vector<training::NamedTensor> model = trainer.model();
    const auto parts = training::split_rows(model, rueda::rank(), rueda::size());
    const auto info = manager.restore_parts(parts, trainer.state());
    if (info) {
        rueda::allreduce("restored", model[0].tensor, {.op = rueda::ReduceOp::sum});
    }
    return info ? info->step : 0;
}

void train_in_parts(Trainer& trainer, const Arguments& arguments) {
    training::CheckpointManager manager(
        {.folder = arguments.folder, .every_steps = 1, .when_busy = training::WhenBusy::wait});
    const std::int64_t first = restore_rows(manager, trainer);
    say_where_it_begins(first);
    for (std::int64_t step = first; step < arguments.steps; ++step) {
        trainer.run_step(step);
        manager.save_parts_when_due(training::split_rows(trainer.model(), rueda::rank(), rueda::size()),
                                    {.step = step + 1, .state = trainer.state()});
    }
}

/// Prints the InvalidArgument that `body` throws on this rank.
template <class Body>
void print_refusal(Body&& body) {
    try {
        body();
        std::printf("rank %d: no error\n", rueda::rank());
    } catch (const rueda::InvalidArgument& error) {
        std::printf("rank %d got: %s\n", rueda::rank(), error.what());
    }
    std::fflush(stdout);
}

/// Tests wrong arguments: one rank passes a wrong metric or wrong rows. All ranks must get the error, and must then be
/// able to continue together. Afterwards, prints how often BackupAndRestore has called this rank's function `save`.
void pass_uneven_arguments(Trainer& trainer, const Arguments& arguments) {
    const int rank = rueda::rank();
    {
        training::CheckpointManager manager({.folder = arguments.folder, .when_busy = training::WhenBusy::wait});
        const auto parts = training::split_rows(trainer.model(), rank, rueda::size());
        training::Snapshot snapshot{.step = 1};
        if (rank == 0) {
            snapshot.metric = std::numeric_limits<double>::quiet_NaN();
        }
        print_refusal([&] { manager.save_parts(parts, snapshot); });
        std::vector<training::TensorPart> wrong = parts;
        if (rank == 1) {
            wrong[0].whole_rows = 1;
        }
        print_refusal([&] { manager.save_parts(wrong, {.step = 2}); });
        print_refusal([&] { manager.restore_parts(wrong); });
        const bool started = manager.save_parts(parts, {.step = 3});
        manager.wait();
        rueda::barrier();  // rank 0 completes the checkpoint
        const auto restored = manager.restore_parts(parts);
        std::printf("rank %d: started %d, restored step %d\n", rank, started ? 1 : 0,
                    restored ? static_cast<int>(restored->step) : -1);
    }
    int asked = 0;
    training::BackupValues values{.save = [&] {
        ++asked;
        return training::Metadata();
    }};
    training::BackupAndRestore backup(
        4, {.folder = arguments.folder + ".values", .every_steps = 1, .when_busy = training::WhenBusy::wait},
        trainer.model(), {}, values);
    for (const std::int64_t step : backup) {
        trainer.run_step(step);
    }
    std::printf("rank %d was asked %d times\n", rank, asked);
    std::fflush(stdout);
}

void run(Trainer& trainer, const Arguments& arguments) {
    if (arguments.layout == "whole") {
        train_whole(trainer, arguments);
    } else if (arguments.layout == "pipeline") {
        train_with_pipeline(trainer, arguments);
    } else if (arguments.layout == "parts") {
        train_in_parts(trainer, arguments);
    } else {
        pass_uneven_arguments(trainer, arguments);
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 5 && argc != 7) {
        std::fprintf(stderr, "usage: resume_job FOLDER LOSSES STEPS whole|parts|pipeline|uneven [KILLED_RANK WHEN]\n");
        return 2;
    }
    Arguments arguments{argv[1], argv[2], std::stoll(argv[3]), argv[4]};
    if (argc == 7) {
        arguments.killed_rank = std::stoi(argv[5]);
        arguments.when = argv[6];
    }
    rueda::init();
    {
        Trainer trainer(arguments);
        run(trainer, arguments);
    }
    rueda::shutdown();
}
