// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "training/replicas/replica_team.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "base/floating_point.hpp"
#include "base/system/cores.hpp"
#include "rueda/error.hpp"
#include "rueda/training/gradients.hpp"
#include "training/log_warning.hpp"
#include "training/replicas/replica_agreement.hpp"
#include "training/replicas/replica_checks.hpp"

namespace rueda::training {
namespace {

/// Ends the function of a replica after another replica has failed. The class does not derive from std::exception, so
/// that a function that catches its own errors does not catch this.
struct ReplicaStopped {};

/// The elements of a piece of a divided gradient. benchmarks/replicas_bench compares sizes: much smaller pieces cost
/// more locking, and much larger pieces cannot be divided evenly.
constexpr std::size_t kReplicaPiece = std::size_t{64} << 10;

/// The longest text of a failure for which no memory is left.
constexpr std::size_t kTextWithoutMemory = 200;

/// If all parameters together have fewer elements, one thread updates them. Waking the other threads would take about
/// as long as the update.
constexpr std::size_t kFewElements = std::size_t{64} << 10;

DistributedOptimizerOptions distribution_of(const ReplicasOptions& options, int count) {
    const std::int64_t passes = options.passes_per_step;
    return {.op = options.op,
            .passes_per_step = options.op == ReduceOp::average ? passes * count : passes,
            .max_norm = options.max_norm,
            .compression = options.compression,
            .process_set = options.process_set};
}

LocalDivision division_of(const ReplicasOptions& options, int count) {
    switch (options.reduction) {
        case ReplicaReduction::to_one:
            return {.group = count};
        case ReplicaReduction::hierarchical:
            return {.group = options.group > 0 ? options.group
                                               : static_cast<int>(std::ceil(std::sqrt(static_cast<double>(count))))};
        case ReplicaReduction::divided:
            break;
    }
    return {.group = count, .piece = kReplicaPiece};
}

/// Warns if the replicas take turns on too few cores, which Open MPI causes: it binds each of one or two processes to
/// one core. The processes of a host are mostly bound in the same way, so one line for each host is enough.
void warn_of_few_cores(int count) {
    const std::uint32_t cores = base::affinity_cores();
    if (cores < static_cast<std::uint32_t>(count) && local_rank() == 0) {
        warnings_to_the_log(rank())(
            fmt::format("{} replicas share {} core{} in this process. Use fewer replicas, or allow the process more "
                        "cores, for example with 'mpirun --bind-to none'",
                        count, cores, cores == 1 ? "" : "s"));
    }
}

int checked_count(const ReplicasOptions& options, std::span<const std::vector<Parameter>> replicas) {
    const int count = static_cast<int>(replicas.size());
    check_replicas_options(options, count);
    check_replicas(replicas);
    return count;
}

std::vector<LocalReduction::Gradient> gradients_of(std::span<const std::vector<Parameter>> replicas) {
    std::vector<LocalReduction::Gradient> gradients(replicas[0].size());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
        gradients[i].count = replicas[0][i].gradient.size();
        for (const std::vector<Parameter>& each : replicas) {
            gradients[i].replicas.push_back(each[i].gradient.data());
        }
    }
    return gradients;
}

std::vector<std::vector<std::span<float>>> copies_of(std::span<const std::vector<Parameter>> replicas) {
    std::vector<std::vector<std::span<float>>> copies(replicas[0].size());
    for (std::size_t i = 0; i < copies.size(); ++i) {
        for (const std::vector<Parameter>& each : replicas) {
            if (each[i].values.data() != replicas[0][i].values.data()) {
                copies[i].push_back(each[i].values);
            }
        }
    }
    return copies;
}

}  // namespace

ReplicaTeam::ReplicaTeam(const OptimizerRule& rule, std::vector<std::vector<Parameter>> replicas,
                         const ReplicasOptions& options)
    : options_(options),
      count_(checked_count(options, replicas)),
      position_(options.process_set.rank()),
      processes_(options.process_set.size()),
      optimizer_(rule, replicas[0], distribution_of(options, count_)),
      copies_(copies_of(replicas)),
      by_size_(replicas[0].size()),
      reduction_(gradients_of(replicas), count_, division_of(options, count_),
                 [this](std::size_t parameter) { announce(parameter); }),
      ready_(replicas.size(), std::vector<std::uint8_t>(replicas[0].size())),
      announced_(replicas[0].size()),
      without_memory_(kTextWithoutMemory),
      threads_(count_) {
    warn_of_few_cores(count_);
    const std::span<const Parameter> parameters = optimizer_.parameters();
    std::iota(by_size_.begin(), by_size_.end(), std::size_t{0});
    std::stable_sort(by_size_.begin(), by_size_.end(), [&](std::size_t one, std::size_t other) {
        return parameters[one].values.size() > parameters[other].values.size();
    });
    for (const Parameter& each : parameters) {
        elements_ += each.values.size();
    }
}

/// The functions that use the threads of all replicas must not be called on one of these threads, which would wait for
/// itself.
void ReplicaTeam::check_idle() const {
    if (work_ != Work::none) {
        throw InvalidArgument(
            "replicas: the function of a replica must call gradient_ready() only; call run(), on_each(), step() and "
            "the other functions of Replicas between the runs");
    }
}

void ReplicaTeam::broadcast(int root) {
    check_idle();
    if (processes_ != size()) {
        throw InvalidArgument(fmt::format(
            "replicas: broadcast() copies to all {} ranks of the job, but the process set has {}; broadcast "
            "each parameter in the process set, and then call copy_to_replicas()",
            size(), processes_));
    }
    optimizer_.broadcast(root);
    copy_to_replicas();
}

void ReplicaTeam::copy_to_replicas() {
    check_idle();
    for_each_parameter([this](std::size_t parameter) { copy_values(parameter); });
}

void ReplicaTeam::copy_values(std::size_t parameter) {
    const std::span<const float> values = optimizer_.parameters()[parameter].values;
    for (const std::span<float>& copy : copies_[parameter]) {
        std::copy(values.begin(), values.end(), copy.begin());
    }
}

/// Calls `action` for each parameter, on the threads of all replicas if there is enough to do. Which thread updates a
/// parameter depends on timing. All threads therefore compute in the default floating-point environment, whatever the
/// functions of the replicas set on their threads.
void ReplicaTeam::for_each_parameter(const std::function<void(std::size_t)>& action) {
    if (count_ == 1 || elements_ < kFewElements) {
        const base::DefaultFloatingPoint environment;
        std::for_each(by_size_.begin(), by_size_.end(), action);
        return;
    }
    // relaxed: the counter only deals out numbers. The mutex of the threads orders the accesses to the parameters.
    std::atomic<std::size_t> next{0};
    threads_.run([&](int /*number*/) {
        const base::DefaultFloatingPoint environment;
        for (std::size_t i = next.fetch_add(1, std::memory_order_relaxed); i < by_size_.size();
             i = next.fetch_add(1, std::memory_order_relaxed)) {
            action(by_size_[i]);
        }
    });
}

void ReplicaTeam::run(const Replicas::Function& pass) {
    check_idle();
    if (runs_ == options_.passes_per_step) {
        throw InvalidArgument(fmt::format(
            "replicas: this step already had {} runs (passes_per_step); call step() or skip() first", runs_));
    }
    const Work work = runs_ + 1 == options_.passes_per_step ? Work::last_run : Work::early_run;
    run_all(pass, work);
    const Status failure = agree(work);
    if (!failure.is_ok()) {
        end_failed_step();
        failure.throw_if_failed();
    }
    ++runs_;
}

void ReplicaTeam::on_each(const Replicas::Function& work) {
    run_all(work, Work::other);
    failure_.throw_if_failed();
}

/// Calls the function for all replicas, and leaves the first failure in failure_.
void ReplicaTeam::run_all(const Replicas::Function& function, Work work) {
    check_idle();
    for (std::vector<std::uint8_t>& each : ready_) {
        std::fill(each.begin(), each.end(), std::uint8_t{0});
    }
    std::fill(announced_.begin(), announced_.end(), 0);
    reduction_.begin();
    if (!failure_.is_ok()) {
        failure_ = {};
        without_memory_ = PreparedFailure(kTextWithoutMemory);
    }
    stopped_.store(false, std::memory_order_relaxed);  // no replica runs; the mutex of the threads publishes this
    work_ = work;
    threads_.run([&](int index) { run_one(function, index); });
    work_ = Work::none;
}

/// Calls the function for one replica, on the replica's thread. Does not throw.
void ReplicaTeam::run_one(const Replicas::Function& function, int index) {
    try {
        Replica replica(*this, index);
        function(replica);
        const std::vector<std::uint8_t>& ready = ready_[static_cast<std::size_t>(index)];
        const auto missing = std::find(ready.begin(), ready.end(), std::uint8_t{0});
        if (work_ != Work::other && missing != ready.end()) {
            throw InvalidArgument(fmt::format(
                "the gradient of parameter '{}' was not ready in this run. Call gradient_ready() for it, with a "
                "gradient of 0 if the pass did not use the parameter",
                optimizer_.parameters()[static_cast<std::size_t>(missing - ready.begin())].name));
        }
        if (work_ == Work::last_run) {
            reduction_.help_until_done();
        }
    } catch (const ReplicaStopped&) {
        return;  // another replica has failed, and has called fail()
    } catch (const Error& error) {
        fail(index, error.code(), error.what());
    } catch (const std::exception& error) {
        fail(index, ErrorCode::internal, error.what());
    } catch (...) {
        fail(index, ErrorCode::internal, "an exception that is no std::exception");
    }
}

void ReplicaTeam::fail(int index, ErrorCode code, std::string_view text) noexcept {
    {
        const std::lock_guard lock(failing_);
        try {
            if (failure_.is_ok()) {
                failure_ = count_ == 1 ? Status(code, std::string(text)) : failure(code, "replica {}: {}", index, text);
            }
        } catch (...) {  // no memory is left
            failure_ = without_memory_.make(code, {"a replica: ", text});
        }
    }
    stopped_.store(true, std::memory_order_relaxed);  // stopped() of the other replicas loads it
    reduction_.stop();
}

void ReplicaTeam::gradient_ready(int replica, std::size_t parameter) {
    if (work_ == Work::other) {
        throw InvalidArgument("gradient_ready() was called in on_each(); call it in run() only");
    }
    std::vector<std::uint8_t>& ready = ready_[static_cast<std::size_t>(replica)];
    if (parameter >= ready.size()) {
        throw InvalidArgument(
            fmt::format("parameter number {} does not exist; there are {} parameters", parameter, ready.size()));
    }
    if (stopped()) {
        throw ReplicaStopped();
    }
    if (ready[parameter] != 0) {
        throw InvalidArgument(fmt::format("the gradient of parameter '{}' was ready twice in this run",
                                          optimizer_.parameters()[parameter].name));
    }
    ready[parameter] = 1;
    if (work_ == Work::last_run) {
        reduction_.arrive(parameter, replica);
    }
}

/// Starts the reduction of a parameter's gradient among the processes, unless it was started before. If this throws, a
/// second call continues where the first one has stopped.
void ReplicaTeam::announce(std::size_t parameter) {
    const std::lock_guard lock(announcing_);
    const std::int64_t times = distribution_of(options_, count_).passes_per_step;
    for (std::int64_t& calls = announced_[parameter]; calls < times; ++calls) {
        optimizer_.gradient_ready(parameter);
    }
}

/// Starts the reductions that a failed run did not start, because the other processes wait for them. The values do not
/// matter: all processes drop this step. If a reduction cannot be started, the other processes would wait forever, so
/// the job ends. Returns false if the job has ended.
bool ReplicaTeam::announce_the_rest() {
    for (std::size_t i = 0; i < announced_.size(); ++i) {
        try {
            announce(i);
        } catch (const Aborted&) {
            return false;
        } catch (const std::exception& error) {
            std::array<char, 500> text{};  // on the stack, because the reason may be that no memory is left
            fmt::format_to_n(text.data(), text.size() - 1,
                             "replicas: the reduction of the gradient of '{}' could not be started: {}",
                             optimizer_.parameters()[i].name, error.what());
            static_cast<void>(rueda_abort(text.data()));
            return false;
        }
    }
    return true;
}

/// Returns the failure with which the run ends on all processes, or success.
Status ReplicaTeam::agree(Work work) {
    if (processes_ == 1) {
        return failure_;
    }
    try {
        if (!failure_.is_ok() && work == Work::last_run && !announce_the_rest()) {
            return failure_;  // it came first
        }
        return agree_on_replicas(failure_, count_, options_.process_set);
    } catch (const Error& error) {  // for example, another process has died
        return failure_.is_ok() ? Status(error.code(), error.what()) : failure_;
    } catch (const std::exception& error) {
        return failure_.is_ok() ? Status(ErrorCode::internal, error.what()) : failure_;
    }
}

/// Drops the gradients of this step, so that the next run begins a new one. Some reductions may not have been started:
/// in a job of one process, or after the end of the job.
void ReplicaTeam::end_failed_step() noexcept {
    runs_ = 0;
    optimizer_.end_failed_step();
}

void ReplicaTeam::check_runs() const {
    check_idle();
    if (runs_ != options_.passes_per_step) {
        throw InvalidArgument(
            fmt::format("replicas: this step had {} runs; expected {} (passes_per_step). Call run() "
                        "before step(), synchronize() or skip()",
                        runs_, options_.passes_per_step));
    }
}

void ReplicaTeam::synchronize() {
    check_runs();
    try {
        optimizer_.synchronize();
    } catch (...) {
        runs_ = 0;  // the step has ended
        throw;
    }
}

void ReplicaTeam::step(double learning_rate, double gradient_factor) {
    synchronize();
    double factor = gradient_factor;
    if (std::isfinite(options_.max_norm)) {
        factor *= clip_factor(std::abs(gradient_factor) * gradient_norm(optimizer_.parameters()), options_.max_norm);
    }
    Optimizer& optimizer = optimizer_.optimizer();
    optimizer.begin_step(learning_rate, factor);
    for_each_parameter([&](std::size_t parameter) {
        optimizer.update(parameter);
        copy_values(parameter);
    });
    skip();  // the parameters are updated; this only ends the step
}

void ReplicaTeam::skip() {
    synchronize();
    optimizer_.skip();
    runs_ = 0;
}

}  // namespace rueda::training
