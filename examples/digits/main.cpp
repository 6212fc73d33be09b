// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file A complete data-parallel training with Rueda. Every process runs this program on its own share of the images.
/// Through the calls of rueda::, the processes train one network together. The program is started with ruedarun, with
/// mpirun, or alone.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "curve.hpp"
#include "data.hpp"
#include "model.hpp"
#include "options.hpp"
#include "rueda/rueda.hpp"
#include "rueda/training/agreement.hpp"
#include "rueda/training/checkpoint.hpp"
#include "rueda/training/curves.hpp"
#include "rueda/training/learning_rate.hpp"
#include "rueda/training/parameters.hpp"
#include "rueda/training/progress.hpp"
#include "rueda/training/sampler.hpp"
#include "summed.hpp"

namespace {

using namespace digits;
namespace training = rueda::training;

template <class... Values>
std::string print(const char* format, Values... values) {
    std::string text(static_cast<std::size_t>(std::snprintf(nullptr, 0, format, values...)), '\0');
    std::snprintf(text.data(), text.size() + 1, format, values...);
    return text;
}

/// One rank's data, network and progress.
class Trainer {
public:
    Trainer(const Options& options, const DataSet& data)
        : options_(options),
          data_(data),
          model_(make_model(options.device, static_cast<std::uint64_t>(options.seed))),
          sampler_({.samples = data.training.count(),
                    .batch = options.batch,
                    .seed = static_cast<std::uint64_t>(options.seed),
                    .rank = rueda::rank(),
                    .size = rueda::size(),
                    .empty_shares = training::EmptyShares::allow}),  // without samples, the gradients are 0
          learning_rate_({.base = options.learning_rate,
                          .policy = options.policy,
                          .workers = rueda::size(),
                          .cap = options.cap,
                          .warmup_steps = options.warmup_epochs * sampler_.batches()}),
          progress_(sampler_.batches()),
          loss_("loss", {}),
          right_("right", {}) {}

    void run() {
        const auto start = std::chrono::steady_clock::now();
        if (options_.resume) {
            resume();
        } else {
            prepare_folder();
            training::broadcast_parameters(model_->state());
            model_->changed();
        }
        for (; epoch_ < options_.epochs; ++epoch_) {
            const double loss = train_epoch();
            const double accuracy = evaluate();
            curve_.back().accuracy = accuracy;
            progress_.line(name_of_epoch() + print("  loss %.4f  learning rate %.4g  accuracy %.4f", loss,
                                                   curve_.back().learning_rate, accuracy));
            save();
        }
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        conclude(seconds.count());
    }

private:
    /// Runs one epoch. Returns the mean loss of its steps.
    double train_epoch() {
        double sum = 0.0;
        sampler_.start_epoch(epoch_);
        progress_.restart(name_of_epoch());
        for (std::int64_t batch = 0; batch < sampler_.batches(); ++batch) {
            rueda::begin_step(step_);
            const double rate = learning_rate_.at(step_);
            const double loss = train_step(batch, rate);
            curve_.push_back({step_, epoch_, loss, rate, std::nullopt});
            progress_.step(batch + 1, progress_.visible() ? print("loss %.4f", loss) : "");
            sum += loss;
            ++step_;
        }
        return sum / static_cast<double>(sampler_.batches());
    }

    /// Updates the parameters once, equally on every rank. Returns the mean loss over the global batch.
    double train_step(std::int64_t batch, double rate) {
        const Images images = data_.training.pick(sampler_.share(batch));
        // Each rank divides the sum of its losses by the size of the global batch, and Rueda adds up the results. This
        // gives the mean even if the ranks' shares differ in size.
        const double scale = 1.0 / static_cast<double>(sampler_.batch_size(batch));
        const Loss loss = softmax_loss(model_->forward(images), images.labels, scale);
        loss_.numbers()[0] = loss.sum * scale;
        loss_.start();
        model_->backward(images, loss.slope, reduction());
        model_->update(static_cast<float>(rate), static_cast<float>(options_.momentum));
        loss_.wait();
        return loss_.numbers()[0];
    }

    /// Returns how the gradients of the ranks are combined. Each rank's loss is a sum over its images, divided by the
    /// size of the global batch. So the sum of the ranks' gradients is the gradient of the mean loss. Adasum should
    /// instead combine the gradients of each rank's own mean loss, which are larger by the factor size(). `postscale`
    /// multiplies the result by this factor.
    [[nodiscard]] rueda::AllreduceOptions reduction() const {
        if (options_.policy == training::ScalingPolicy::adasum) {
            return {.op = rueda::ReduceOp::adasum,
                    .postscale = static_cast<double>(rueda::size()),
                    .compression = options_.compression};
        }
        return {.op = rueda::ReduceOp::sum, .compression = options_.compression};
    }

    /// Returns the fraction of the held-out images that the network recognises. Each rank evaluates some of the images.
    double evaluate() {
        const rueda::Busy busy("evaluating");
        const training::Range mine = training::shard(data_.held_out.count(), rueda::rank(), rueda::size());
        const Images images = data_.held_out.piece(mine.begin, mine.size());
        right_.numbers()[0] = count_correct(model_->forward(images), images.labels);
        right_.start();
        right_.wait();
        return static_cast<double>(right_.numbers()[0]) / static_cast<double>(data_.held_out.count());
    }

    /// Returns what the checkpoint stores beside the tensors: the options that influence the training, the data's
    /// checksum, and the number of finished epochs.
    [[nodiscard]] training::Metadata metadata(std::int64_t epochs_done) const {
        training::Metadata text = course_of(options_);
        text["data"] = data_.checksum;
        text["epochs_done"] = std::to_string(epochs_done);
        return text;
    }

    void save() {
        training::run_on_root([this] { write_csv(curve_path(), curve_); });
        training::save_checkpoint(checkpoint_path(), model_->state(), metadata(epoch_ + 1));
    }

    void resume() {
        training::Metadata saved = training::restore_checkpoint(checkpoint_path(), model_->state());
        model_->changed();
        for (const auto& [name, value] : metadata(0)) {
            if (name != "epochs_done" && saved[name] != value) {
                throw rueda::InvalidArgument("checkpoint " + checkpoint_path().string() + " was trained with " + name +
                                             " '" + saved[name] + "', but now it is '" + value +
                                             "'; resume with the same");
            }
        }
        const std::string& done = saved["epochs_done"];
        const auto parsed = std::from_chars(done.data(), done.data() + done.size(), epoch_);
        if (parsed.ec != std::errc() || parsed.ptr != done.data() + done.size() || epoch_ < 1 ||
            epoch_ >= options_.epochs) {
            throw rueda::InvalidArgument("checkpoint " + checkpoint_path().string() + " has '" + done +
                                         "' epochs behind it; --epochs must be larger, and is " +
                                         std::to_string(options_.epochs));
        }
        step_ = epoch_ * sampler_.batches();
        training::run_on_root([this] { curve_ = read_csv(curve_path(), step_); });
    }

    void prepare_folder() const {
        training::run_on_root([this] {
            std::error_code error;
            std::filesystem::create_directories(options_.checkpoint_dir, error);
            if (error) {
                throw rueda::InvalidArgument("--checkpoint-dir " + options_.checkpoint_dir.string() +
                                             " cannot be made: " + error.message() +
                                             "; name a folder that this user may write to");
            }
        });
    }

    void conclude(double seconds) {
        training::run_on_root([this] { draw_picture(); });
        progress_.line(print("accuracy %.4f", *curve_.back().accuracy));
        progress_.line(
            print("time %.1f s with %d %s", seconds, rueda::size(), rueda::size() == 1 ? "process" : "processes"));
        progress_.line("checkpoint " + checkpoint_path().string());
        progress_.line("curve " + picture_path().string() + " and " + curve_path().string());
    }

    /// Draws two curves: the loss of each step, and after each epoch the fraction of the held-out images that the
    /// network does not recognise.
    void draw_picture() const {
        training::Curve loss{"loss", {}};
        training::Curve errors{"error rate on the held-out images", {}};
        for (const CurvePoint& point : curve_) {
            const auto step = static_cast<double>(point.step);
            loss.points.push_back({step, point.loss});
            if (point.accuracy) {
                errors.points.push_back({step, 1.0 - *point.accuracy});
            }
        }
        training::draw_curves(picture_path(), std::vector<training::Curve>{std::move(loss), std::move(errors)},
                              {.title = print("Training on handwritten digits: %.2f %% of the held-out images right",
                                              100 * *curve_.back().accuracy),
                               .y_label = "loss, error rate",
                               .logarithmic = true});
    }

    [[nodiscard]] std::string name_of_epoch() const {
        return "epoch " + std::to_string(epoch_ + 1) + "/" + std::to_string(options_.epochs);
    }
    [[nodiscard]] std::filesystem::path checkpoint_path() const {
        return options_.checkpoint_dir / "digits.safetensors";
    }
    [[nodiscard]] std::filesystem::path curve_path() const { return options_.checkpoint_dir / "curve.csv"; }
    [[nodiscard]] std::filesystem::path picture_path() const { return options_.checkpoint_dir / "curve.svg"; }

    const Options& options_;
    const DataSet& data_;
    std::unique_ptr<Model> model_;
    training::Sampler sampler_;
    training::LearningRate learning_rate_;
    training::Progress progress_;
    Summed<double> loss_;
    Summed<std::int64_t> right_;
    Curve curve_;  ///< complete only on rank 0
    std::int64_t epoch_ = 0;
    std::int64_t step_ = 0;
};

/// If one rank fails, for example because of its options, files or memory, run_on_every_rank makes all ranks fail. So
/// no rank waits for a rank that has ended.
void run(int argc, char** argv) {
    std::optional<Options> options;
    std::string help;
    training::run_on_every_rank([&] { options = parse_options(argc, argv, help); });
    if (!options) {
        std::fputs(rueda::rank() == 0 ? help.c_str() : "", stdout);
        return;
    }
    use_one_thread();
    DataSet data;
    std::optional<Trainer> trainer;
    training::run_on_every_rank([&] {
        data = read_data(options->data);
        trainer.emplace(*options, data);
    });
    trainer->run();
}

/// Prints the error in one line. All ranks get the same error, so only rank 0 prints it. If the job was aborted, for
/// example because a rank died, every remaining rank prints the error.
int report(const rueda::Error& error) {
    if (!rueda::initialized() || rueda::rank() == 0 || error.code() == rueda::ErrorCode::aborted) {
        std::fprintf(stderr, "digits: %s: %s\n", name_of(error.code()), error.what());
    }
    return error.code() == rueda::ErrorCode::invalid_argument ? 2 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    int status = 0;
    try {
        rueda::init();
        try {
            run(argc, argv);
        } catch (const rueda::Error& error) {
            status = report(error);
        }
        rueda::shutdown();
    } catch (const rueda::Error& error) {
        status = report(error);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "digits: %s\n", error.what());
        status = 1;
    }
    return status;
}
