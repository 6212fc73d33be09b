// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/distributed_optimizer.hpp"

#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <string>
#include <utility>

#include "rueda/error.hpp"
#include "rueda/training/gradients.hpp"

namespace rueda::training {
namespace {

void check_distribution(const DistributedOptimizerOptions& options) {
    if (options.op != ReduceOp::average && options.op != ReduceOp::sum && options.op != ReduceOp::adasum) {
        throw InvalidArgument(
            fmt::format("distributed optimizer: op is {}; use average, sum or adasum", name_of(options.op)));
    }
    if (options.passes_per_step < 1) {
        throw InvalidArgument(fmt::format("distributed optimizer: passes_per_step is {}; it must be at least 1",
                                          options.passes_per_step));
    }
    if (!(options.max_norm > 0.0)) {
        throw InvalidArgument(
            fmt::format("distributed optimizer: max_norm is {}; it must be above 0", options.max_norm));
    }
}

}  // namespace

struct DistributedOptimizer::State {
    /// The gradient of one parameter in the current step.
    struct Reduction {
        std::string name;         ///< the name of the allreduce
        std::int64_t passes = 0;  ///< the calls of gradient_ready() in this step
        Handle handle;  ///< empty before the start of the allreduce, and after the program has waited for the allreduce
    };

    State(const OptimizerRule& rule, std::vector<Parameter> parameters, const DistributedOptimizerOptions& how)
        : optimizer(rule, std::move(parameters)), options(how) {
        for (const Parameter& each : optimizer.parameters()) {
            reductions.emplace_back().name = "gradient." + each.name;
        }
    }
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    /// Waits for the reductions that still run, because they write into the gradients, which the program may free next.
    ~State() { wait_without_errors(); }

    void wait_without_errors() noexcept {
        for (Reduction& each : reductions) {
            const Handle handle = std::exchange(each.handle, Handle());
            try {
                if (!handle.empty()) {
                    handle.wait();
                }
            } catch (...) {  // an error of the reduction does not matter here
                continue;
            }
        }
    }

    void check_complete() const {
        for (std::size_t i = 0; i < reductions.size(); ++i) {
            if (reductions[i].passes < options.passes_per_step) {
                throw InvalidArgument(fmt::format(
                    "distributed optimizer: the gradient of parameter '{}' was ready {} times in this step; expected "
                    "{}. Call gradient_ready() for it, with a gradient of 0 if the pass did not use the parameter",
                    optimizer.parameters()[i].name, reductions[i].passes, options.passes_per_step));
            }
        }
    }

    /// Waits for each reduction, and calls `done(index)` after a success. Throws the first error at the end, when no
    /// reduction uses the gradients' memory any more.
    template <class Done>
    void wait_for_all(Done&& done) {
        std::exception_ptr failure;
        for (std::size_t i = 0; i < reductions.size(); ++i) {
            const Handle handle = std::exchange(reductions[i].handle, Handle());
            try {
                if (!handle.empty()) {
                    handle.wait();
                }
                done(i);
            } catch (...) {
                failure = failure ? failure : std::current_exception();
            }
        }
        if (failure) {
            end_step();
            std::rethrow_exception(failure);
        }
    }

    void end_step() noexcept {
        for (Reduction& each : reductions) {
            each.passes = 0;
        }
    }

    Optimizer optimizer;
    DistributedOptimizerOptions options;
    std::vector<Reduction> reductions;
};

DistributedOptimizer::DistributedOptimizer(const OptimizerRule& rule, std::vector<Parameter> parameters,
                                           const DistributedOptimizerOptions& options) {
    check_distribution(options);
    state_ = std::make_unique<State>(rule, std::move(parameters), options);
}
DistributedOptimizer::DistributedOptimizer(DistributedOptimizer&& other) noexcept = default;
DistributedOptimizer& DistributedOptimizer::operator=(DistributedOptimizer&& other) noexcept = default;
DistributedOptimizer::~DistributedOptimizer() = default;

void DistributedOptimizer::broadcast(int root) {
    std::vector<NamedTensor> all = state_->optimizer.state();
    for (const Parameter& each : parameters()) {
        all.push_back({each.name, TensorView(each.values)});
    }
    broadcast_parameters(all, root);
}

void DistributedOptimizer::gradient_ready(std::size_t index) {
    if (index >= state_->reductions.size()) {
        throw InvalidArgument(
            fmt::format("distributed optimizer: parameter number {} does not exist; there are {} parameters", index,
                        state_->reductions.size()));
    }
    State::Reduction& reduction = state_->reductions[index];
    const DistributedOptimizerOptions& options = state_->options;
    const Parameter& parameter = parameters()[index];
    if (reduction.passes == options.passes_per_step) {
        throw InvalidArgument(fmt::format(
            "distributed optimizer: the gradient of parameter '{}' is ready more than {} times in this step "
            "(passes_per_step); call step() first",
            parameter.name, options.passes_per_step));
    }
    if (reduction.passes + 1 == options.passes_per_step) {
        reduction.handle = allreduce_async(reduction.name, TensorView(parameter.gradient),
                                           {.op = options.op,
                                            .postscale = 1.0 / static_cast<double>(options.passes_per_step),
                                            .process_set = options.process_set,
                                            .compression = options.compression});
    }
    ++reduction.passes;
}

void DistributedOptimizer::synchronize() {
    state_->check_complete();
    state_->wait_for_all([](std::size_t /*index*/) {});
}

void DistributedOptimizer::step(double learning_rate, double gradient_factor) {
    state_->check_complete();
    double factor = gradient_factor;
    if (std::isfinite(state_->options.max_norm)) {
        synchronize();
        factor *= clip_factor(std::abs(gradient_factor) * gradient_norm(parameters()), state_->options.max_norm);
    }
    state_->optimizer.begin_step(learning_rate, factor);
    state_->wait_for_all([&](std::size_t index) { state_->optimizer.update(index); });
    state_->end_step();
}

void DistributedOptimizer::skip() {
    synchronize();
    state_->end_step();
}

void DistributedOptimizer::end_failed_step() noexcept {
    state_->wait_without_errors();
    state_->end_step();
}

Optimizer& DistributedOptimizer::optimizer() noexcept { return state_->optimizer; }
std::span<const Parameter> DistributedOptimizer::parameters() const noexcept { return state_->optimizer.parameters(); }

}  // namespace rueda::training
