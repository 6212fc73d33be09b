// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file Trains DeepFM data-parallel, from files or FIFOs to the AUC. Every process runs this program on its own share
/// of the samples. The program is started with ruedarun, with mpirun, or alone.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "curve.hpp"
#include "features.hpp"
#include "model.hpp"
#include "options.hpp"
#include "rueda/data/pipeline.hpp"
#include "rueda/rueda.hpp"
#include "rueda/training/agreement.hpp"
#include "rueda/training/batch.hpp"
#include "rueda/training/checkpoint_manager.hpp"
#include "rueda/training/evaluation.hpp"
#include "rueda/training/job_summary.hpp"
#include "rueda/training/parameters.hpp"
#include "rueda/training/progress.hpp"
#include "rueda/training/replicas.hpp"
#include "rueda/training/sampler.hpp"

namespace {

using namespace deepfm;
namespace data = rueda::data;
namespace training = rueda::training;

/// Returns the cross entropy of a prediction. This form cannot overflow.
double loss_of(double logit, double label) {
    return std::max(logit, 0.0) - logit * label + std::log1p(std::exp(-std::abs(logit)));
}

/// An operation in progress. The destructor waits for it, also after an exception, because Rueda uses the operation's
/// tensors until the operation has completed.
class Pending {
public:
    Pending() = default;
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    ~Pending() {
        try {
            handle.wait();
        } catch (const rueda::Error&) {  // ignored: no operation was started, or another error already ends the program
        }
    }

    rueda::Handle handle;
};

/// The indices of the numbers in sums_, which the ranks add up in each step while they exchange the table's gradients.
enum StepSum : std::size_t { kLoss, kRows, kEnded, kFailed, kStepSums };

/// A replica of the model, and what it computes in a step. Only the replica's thread uses it during the step.
struct Worker {
    DeepFm model;
    Samples samples = {};
    std::vector<float> slopes = {};
    double loss = 0.0;
    std::span<const float> logits = {};  ///< the logits of the last samples of an evaluation
};

std::vector<Worker> make_workers(const Options& options) {
    std::vector<Worker> workers;
    workers.push_back({DeepFm(options.features, options.embedding, options.hidden, options.seed, options.library)});
    while (workers.size() < static_cast<std::size_t>(options.replicas)) {
        workers.push_back({workers.front().model.make_replica()});
    }
    return workers;
}

std::vector<std::vector<training::Parameter>> parameters_of(std::vector<Worker>& workers) {
    std::vector<std::vector<training::Parameter>> parameters;
    for (Worker& each : workers) {
        parameters.push_back(each.model.dense_parameters());
    }
    return parameters;
}

/// Trains the model on one rank. The replicas of the rank share the rank's samples.
class Trainer {
public:
    explicit Trainer(const Options& options)
        : options_(options),
          workers_(make_workers(options)),
          table_(workers_.front().model.table()),
          row_sums_(table_.features(), table_.width()),
          replicas_(training::Adagrad{.initial_accumulator = kInitialAccumulator}, parameters_of(workers_),
                    {.op = rueda::ReduceOp::sum}),
          sums_(kStepSums),
          sums_slot_("step sums") {
        model_tensors_.push_back(table_.values());
        for (const training::Parameter& parameter : replicas_.parameters()) {
            model_tensors_.push_back({parameter.name, parameter.values});
        }
        state_tensors_ = replicas_.optimizer().state();
        state_tensors_.push_back(table_.accumulators());
    }

    void run() {
        const data::Position start = restore();
        training::run_on_every_rank([&] { open_input(start); });
        training::run_on_root([this] {
            check_first_samples(options_.test, options_.features, "--test");
            if (!options_.curve.empty()) {
                curve_.open(options_.curve, step_);
            }
        });
        for (std::int64_t epoch = start.epoch; epoch < options_.epochs; ++epoch) {
            train_epoch(epoch, epoch == start.epoch ? start.step : 0);
        }
        if (start.epoch >= options_.epochs) {
            evaluate();  // nothing is left to train
        }
        conclude();
    }

private:
    /// Restores the newest checkpoint, if there is one, and returns where the input continues.
    data::Position restore() {
        std::optional<training::CheckpointInfo> restored;
        if (!options_.checkpoint_dir.empty()) {
            checkpoints_.emplace(training::CheckpointManagerOptions{.folder = options_.checkpoint_dir,
                                                                    .every_steps = options_.checkpoint_every,
                                                                    .better = training::BetterMetric::higher});
            restored = checkpoints_->restore(model_tensors_, state_tensors_);
        }
        if (!restored) {
            training::broadcast_parameters(model_tensors_);
            return {};
        }
        for (const auto& [name, value] : course_of(options_)) {
            const std::string& saved = restored->values[name];
            if (saved != value) {
                std::string text = "checkpoint ";
                text.append(restored->folder.string()).append(" was trained with ").append(name);
                text.append(" '").append(saved).append("', but now it is '").append(value);
                text += "'; continue with the same, or give another --checkpoint-dir";
                throw rueda::InvalidArgument(text);
            }
        }
        step_ = restored->step;
        progress_.line("continuing at step " + std::to_string(step_) + " from " + restored->folder.string());
        return data::Position::from_text(restored->values["position"]);
    }

    void open_input(const data::Position& start) {
        if (start.epoch >= options_.epochs) {
            return;
        }
        data::PipelineOptions options;
        options.batch = options_.batch;
        options.rank = rueda::rank();
        options.size = rueda::size();
        options.seed = options_.seed;
        options.shuffle = options_.shuffle;
        options.epochs = options_.epochs;
        options.threads = options_.threads;
        options.start = start;
        set_input(options, options_.train, options_.features);
        input_.emplace(std::move(options));
        for (const std::string& warning : input_->warnings()) {
            progress_.line("warning: " + warning);
        }
        if (options_.batch % rueda::size() != 0) {
            const std::int64_t least = options_.batch / rueda::size();
            progress_.line("batch: " + std::to_string(options_.batch) + " samples over " +
                           std::to_string(rueda::size()) + " processes, " + std::to_string(least) + " or " +
                           std::to_string(least + 1) + " on each; every sample has the same weight");
        }
    }

    /// Trains an epoch. If the run continues from a checkpoint, `before` steps of the epoch were trained already.
    void train_epoch(std::int64_t epoch, std::int64_t before) {
        const auto begin = std::chrono::steady_clock::now();
        progress_.restart("epoch " + std::to_string(epoch + 1) + ", step");
        double loss = 0.0;
        double rows = 0.0;
        const std::int64_t first_step = step_;
        while (train_step()) {
            if (sums_[kRows] == 0.0) {
                continue;
            }
            const double mean = sums_[kLoss] / sums_[kRows];
            loss += sums_[kLoss];
            rows += sums_[kRows];
            samples_ += static_cast<std::int64_t>(sums_[kRows]);
            summary_.step(has_samples_ ? batch_.counted() : 0);
            curve_.add(step_, epoch, mean);
            ++step_;
            show_progress(mean);
            // No checkpoint is saved after the samples of one rank have ended. A checkpoint has only one position in
            // the input, but FIFOs of different lengths may bring the ranks to different positions.
            if (checkpoints_ && sums_[kEnded] == 0.0) {
                if (step_ % options_.checkpoint_every == 0) {
                    curve_.flush();  // a job that continues from this checkpoint needs the earlier rows of the curve
                }
                checkpoints_->save_when_due(snapshot(std::nullopt));
            }
        }
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
        if (step_ == 0) {
            throw rueda::InvalidArgument("--train has no samples; give files that are not empty");
        }
        evaluate();
        const std::int64_t steps = step_ - first_step;
        const std::string part = before == 0 ? ""
                                             : " (of the last " + std::to_string(steps) + " of " +
                                                   std::to_string(before + steps) + " steps)";
        char text[250];
        std::snprintf(text, sizeof text, "epoch %lld/%lld  loss %.4f%s  test loss %.4f  AUC %.4f  %.0f samples/s",
                      static_cast<long long>(epoch) + 1, static_cast<long long>(options_.epochs),
                      loss / std::max(rows, 1.0), part.c_str(), test_loss_, auc_, rows / seconds.count());
        progress_.line(text);
        if (checkpoints_) {
            curve_.flush();
            // without this wait, save() would skip this checkpoint if the previous one is still being written
            checkpoints_->wait();
            checkpoints_->save(snapshot(auc_));
        }
    }

    /// Takes part in one step of all ranks. Returns false if the epoch has ended on all ranks. If this rank has no
    /// samples, for example because its FIFO has ended before those of the other ranks, it contributes gradients of
    /// zero.
    bool train_step() {
        rueda::begin_step(step_);
        std::fill(sums_.begin(), sums_.end(), 0.0);
        read_samples();
        // A gradient is a sum over samples. The replicas of all ranks add up their gradients, and the update divides by
        // the number of all samples. Every sample therefore has the same weight, however many samples each replica has.
        replicas_.run([this](training::Replica& replica) { train_replica(replica); });
        for (const Worker& each : workers_) {
            sums_[kLoss] += each.loss;
            sums_[kRows] += static_cast<double>(each.samples.rows());
        }
        const rueda::AllreduceOptions sum{.op = rueda::ReduceOp::sum};
        pending_sums_.handle = rueda::allreduce_async(sums_slot_, sums_, sum);
        const RowGradients& rows = row_gradients();
        const rueda::InputView values(rows.rows.data(), rueda::DType::float32,
                                      {static_cast<std::int64_t>(rows.ids.size()), table_.width()});
        pending_rows_.handle = rueda::sparse_allreduce_async(
            "table", rows.ids, values, {table_.features(), table_.width()}, {.op = rueda::ReduceOp::sum});
        pending_sums_.handle.wait();
        return update();
    }

    /// The forward and backward pass of one replica, on the replica's thread.
    void train_replica(training::Replica& replica) {
        Worker& worker = workers_[static_cast<std::size_t>(replica.index())];
        worker.samples.clear();
        if (has_samples_) {
            copy_samples(batch_, training::shard(batch_.rows(), replica.index(), replica.count()), worker.samples);
        }
        const std::span<const float> logits = worker.model.forward(worker.samples);
        worker.slopes.resize(logits.size());
        worker.loss = 0.0;
        for (std::size_t i = 0; i < logits.size(); ++i) {
            const float label = worker.samples.labels[i];
            worker.loss += loss_of(logits[i], label);
            worker.slopes[i] = 1.0F / (1.0F + std::exp(-logits[i])) - label;
        }
        worker.model.backward(worker.samples, worker.slopes,
                              [&replica](std::size_t index) { replica.gradient_ready(index); });
    }

    /// Returns the gradients of this rank's rows of the table: the sums over the replicas.
    const RowGradients& row_gradients() {
        if (workers_.size() == 1) {
            return workers_.front().model.row_gradients();
        }
        row_sums_.clear();
        for (const Worker& each : workers_) {
            row_sums_.add(each.model.row_gradients());
        }
        return row_sums_.gradients();
    }

    /// Reads this rank's samples of the next step. An error is not thrown but stored in `failure_`: the other ranks
    /// already take part in the step, and would wait for this rank.
    void read_samples() {
        has_samples_ = false;
        if (epoch_ended_) {
            sums_[kEnded] = 1.0;
            return;
        }
        try {
            wait_for_samples();
            epoch_ended_ = !input_->next(batch_);
            if (epoch_ended_) {
                sums_[kEnded] = 1.0;
            } else {
                has_samples_ = true;
            }
        } catch (...) {
            failure_ = std::current_exception();
            sums_[kFailed] = 1.0;
        }
    }

    /// Waits until the next batch is there. If this takes long, because a writer of a FIFO does not write, this rank
    /// prints a message. Stall reports of the other ranks show that this rank waits for samples.
    void wait_for_samples() {
        if (input_->wait_for(std::chrono::seconds(0))) {
            return;
        }
        const rueda::Busy busy("waiting for samples");
        constexpr std::chrono::seconds kPart{10};
        for (bool told = false; !input_->wait_for(kPart); told = true) {
            if (!told) {
                const std::int64_t epoch = input_->position().epoch;
                std::fprintf(stderr, "deepfm: rank %d has waited %lld s for samples of epoch %lld/%lld from %s\n",
                             rueda::rank(), static_cast<long long>(kPart.count()), static_cast<long long>(epoch) + 1,
                             static_cast<long long>(options_.epochs),
                             sources_of(options_.train, rueda::rank(), rueda::size(), epoch).c_str());
            }
        }
    }

    /// Waits for the gradients and updates the model, equally on every rank.
    bool update() {
        if (sums_[kFailed] != 0.0) {
            training::run_on_every_rank([this] {
                if (failure_) {
                    std::rethrow_exception(failure_);
                }
            });
        }
        if (sums_[kRows] == 0.0) {
            replicas_.skip();
            pending_rows_.handle.wait();
            const bool ended = sums_[kEnded] == static_cast<double>(rueda::size());
            epoch_ended_ = epoch_ended_ && !ended;
            return !ended;
        }
        if (!std::isfinite(sums_[kLoss])) {
            throw rueda::InvalidArgument("the loss of step " + std::to_string(step_) +
                                         " is not finite; choose a smaller --lr, or check the values of the samples");
        }
        const double factor = 1.0 / sums_[kRows];
        replicas_.step(options_.learning_rate, factor);
        pending_rows_.handle.wait();
        const rueda::TensorView ids = pending_rows_.handle.output(0);
        const rueda::TensorView rows = pending_rows_.handle.output(1);
        table_.update({static_cast<const std::int64_t*>(ids.data()), count_of(ids)},
                      {static_cast<const float*>(rows.data()), count_of(rows)},
                      static_cast<float>(options_.learning_rate), static_cast<float>(factor));
        return true;
    }

    static std::size_t count_of(const rueda::TensorView& tensor) {
        return static_cast<std::size_t>(tensor.shape().elements());
    }

    /// Computes the loss and the exact AUC over all test samples. Each rank evaluates a part of the samples.
    void evaluate() {
        const rueda::Busy busy("evaluating");
        training::Auc auc;
        training::Mean loss;
        training::run_on_every_rank([&] {
            data::PipelineOptions options;
            options.batch = std::int64_t{1024} * replicas_.workers();
            options.rank = rueda::rank();
            options.size = rueda::size();
            options.epochs = 1;
            options.threads = options_.threads;
            set_input(options, options_.test, options_.features);
            data::Pipeline pipeline(std::move(options));
            while (pipeline.next(batch_)) {
                replicas_.on_each([this](training::Replica& replica) {
                    Worker& worker = workers_[static_cast<std::size_t>(replica.index())];
                    copy_samples(batch_, training::shard(batch_.rows(), replica.index(), replica.count()),
                                 worker.samples);
                    worker.logits = worker.model.forward(worker.samples);
                });
                for (const Worker& worker : workers_) {
                    for (std::size_t i = 0; i < worker.logits.size(); ++i) {
                        const float label = worker.samples.labels[i];
                        auc.add(worker.logits[i], label == 1.0F);
                        loss.add(loss_of(worker.logits[i], label));
                    }
                }
            }
        });
        auc_ = auc.compute();
        test_loss_ = loss.compute();
        if (std::isnan(auc_)) {
            throw rueda::InvalidArgument(
                "--test has no sample with the label 1, or none with 0, so that there is no AUC");
        }
    }

    void show_progress(double loss) {
        if (progress_.visible()) {
            const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
            char text[100];
            std::snprintf(text, sizeof text, "loss %.4f, %.0f samples/s", loss,
                          static_cast<double>(samples_) / seconds.count());
            progress_.step(step_, text);
        }
    }

    /// Returns what a checkpoint contains after `step_` steps.
    [[nodiscard]] training::Snapshot snapshot(std::optional<double> metric) const {
        training::Metadata values = course_of(options_);
        values["position"] = input_->position().to_text();
        return {step_, model_tensors_, state_tensors_, std::move(values), metric};
    }

    void conclude() {
        if (input_) {
            progress_.line(input_->summary());
            summary_.waited_for_data(input_->statistics().consumer_waited);
        }
        summary_.finish({.checkpoints = checkpoints_ ? &*checkpoints_ : nullptr,
                         .print = [this](std::string_view text) { progress_.line(text); }});
        char text[100];
        std::snprintf(text, sizeof text, "AUC %.6f after %lld steps with %d %s", auc_, static_cast<long long>(step_),
                      rueda::size(), rueda::size() == 1 ? "process" : "processes");
        progress_.line(
            text + (options_.replicas == 1 ? std::string() : " of " + std::to_string(options_.replicas) + " replicas"));
        // The curve is closed last, so that the result is printed even if the curve cannot be written.
        training::run_on_root([this] { curve_.close(); });
    }

    const Options& options_;
    std::vector<Worker> workers_;  ///< of the replicas
    Table& table_;                 ///< of all replicas
    RowSums row_sums_;             ///< the gradients of several replicas
    training::Replicas replicas_;
    std::vector<training::NamedTensor> model_tensors_;
    std::vector<training::NamedTensor> state_tensors_;
    std::optional<training::CheckpointManager> checkpoints_;
    std::optional<data::Pipeline> input_;
    data::Batch batch_;
    bool has_samples_ = false;  ///< whether batch_ has samples for the present step
    std::vector<double, rueda::Allocator<double>> sums_;
    rueda::TensorSlot sums_slot_;
    training::JobSummary summary_;
    training::Progress progress_;  ///< counts steps without a bar, because their total is not known
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    Curve curve_;  ///< only rank 0 writes it
    std::exception_ptr failure_;
    bool epoch_ended_ = false;  ///< whether the epoch has ended on this rank
    std::int64_t step_ = 0;
    std::int64_t samples_ = 0;  ///< the samples that were trained since the program's start
    double auc_ = 0.0;
    double test_loss_ = 0.0;
    // The destructors of these members wait for operations, which use the tensors of the members above. Members are
    // destroyed in reverse order, so these stand last.
    Pending pending_sums_;
    Pending pending_rows_;
};

/// Throws an error if --batch is not a multiple of the number of replicas in all processes. With one replica in each
/// process, there is no such rule: the parts of the processes may differ by one sample.
void check_batch(const Options& options) {
    if (options.replicas == 1) {
        return;
    }
    try {
        (void)training::plan_batch({.size = options.batch, .workers = rueda::size() * options.replicas});
    } catch (const rueda::InvalidArgument& error) {
        throw rueda::InvalidArgument("--batch with " + std::to_string(rueda::size()) + " × " +
                                     std::to_string(options.replicas) + " replicas: " + error.what());
    }
}

/// Trains and evaluates. If one rank fails, for example because of its options, files or memory, run_on_every_rank
/// makes all ranks fail. So no rank waits for a rank that has ended.
void run(int argc, char** argv) {
    std::optional<Options> options;
    std::string help;
    training::run_on_every_rank([&] { options = parse_options(argc, argv, help); });
    if (!options) {
        std::fputs(rueda::rank() == 0 ? help.c_str() : "", stdout);
        return;
    }
    std::optional<Trainer> trainer;
    training::run_on_every_rank([&] {
        check_batch(*options);
        trainer.emplace(*options);
    });
    trainer->run();
}

/// Prints the error in one line. All ranks get the same error, so only rank 0 prints it. If the job was aborted, for
/// example because a rank died, every remaining rank prints the error.
int report(const rueda::Error& error) {
    if (!rueda::initialized() || rueda::rank() == 0 || error.code() == rueda::ErrorCode::aborted) {
        std::fprintf(stderr, "deepfm: %s: %s\n", name_of(error.code()), error.what());
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
        std::fprintf(stderr, "deepfm: %s\n", error.what());
        status = 1;
    }
    return status;
}
