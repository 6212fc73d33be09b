// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// An optimizer that reduces each gradient as soon as the backward pass has computed it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "rueda/rueda.hpp"
#include "rueda/training/optimizer.hpp"
#include "rueda/training/parameters.hpp"

namespace rueda::training {

class ReplicaTeam;  // the implementation of Replicas

struct DistributedOptimizerOptions {
    ReduceOp op = ReduceOp::average;  ///< average, sum or adasum
    /// Number of backward passes per step, ≥ 1 (gradient accumulation). Each pass adds to the gradients, and the
    /// reduction divides the gradients by this number. Only the last pass communicates.
    std::int64_t passes_per_step = 1;
    /// The largest norm of all gradients together, above 0; see clip_factor(). If this is finite, step() waits for all
    /// gradients before it makes the first update.
    double max_norm = std::numeric_limits<double>::infinity();
    Compression compression = Compression::none;  ///< the format between hosts
    ProcessSet process_set = world();
};

/// Combines an Optimizer with allreduces that run during the backward pass:
///
///     for each layer, from the last to the first:
///         compute its gradient
///         optimizer.gradient_ready(index)     // starts the allreduce, does not wait
///     optimizer.step(rate)                    // updates each parameter when its gradient is reduced
///
/// All members of the process set must make the same calls with the same parameters; the order of gradient_ready() may
/// differ. If the gradients are in memory from rueda::allocate() or rueda::Allocator, the ranks of a host reduce them
/// in place. Threads: one thread at a time may use an optimizer.
class RUEDA_API DistributedOptimizer {
public:
    /// Throws like Optimizer's constructor, and if an option is out of its range. Does not communicate.
    DistributedOptimizer(const OptimizerRule& rule, std::vector<Parameter> parameters,
                         const DistributedOptimizerOptions& options = {});
    DistributedOptimizer(DistributedOptimizer&& other) noexcept;
    DistributedOptimizer& operator=(DistributedOptimizer&& other) noexcept;
    /// Waits for the reductions that were started and have not ended, and ignores their errors. The optimizer must be
    /// destroyed before the gradients, even if an exception ends the step. So declare the gradients before the
    /// optimizer.
    ~DistributedOptimizer();

    /// Copies the parameters and the optimizer's state from rank `root` to all ranks of the job. All ranks must call
    /// this function. Use it with the process set of all ranks, at the beginning or after the root restored a
    /// checkpoint. Throws like broadcast_parameters().
    void broadcast(int root = 0);

    /// Says that a backward pass has written (or added) the gradient of parameter `index`. In the last pass of the
    /// step, this function starts the allreduce in place. From then until synchronize() or step(), the gradient must
    /// not be changed. Does not block. Throws InvalidArgument if there is no such parameter, or if this function was
    /// already called `passes_per_step` times for the parameter in this step.
    void gradient_ready(std::size_t index);

    /// Waits until all gradients are reduced. Call this function only if you need the gradients before step(), for
    /// example to skip a step whose gradients are not finite. If the gradient of a parameter is missing in this step,
    /// throws InvalidArgument with the parameter's name. After this error, the other reductions of the step continue
    /// and write into their gradients until the step ends or the optimizer is destroyed. If reductions fail, waits for
    /// all of them and throws the first error.
    void synchronize();

    /// Waits for the gradients and updates each parameter as soon as its gradient is reduced, so the updates overlap
    /// with the reductions that are still running. The gradients are first multiplied by `gradient_factor`, for example
    /// LossScale::gradient_factor(), and then clipped to `max_norm`. Throws like synchronize(), and like
    /// Optimizer::step(). After an InvalidArgument, reductions may still run. If a reduction fails, each member
    /// has updated exactly the parameters whose reduction succeeded. But if `max_norm` is finite, it has updated no
    /// parameter. If `max_norm` is finite but the norm is not, throws InvalidArgument; skip() can then end the step.
    void step(double learning_rate, double gradient_factor = 1.0);

    /// Ends the step without an update. All members must skip the same steps; see LossScale::keep_step(). Waits and
    /// throws like synchronize().
    void skip();

    /// The parameters, the number of steps and the state, for checkpoints.
    [[nodiscard]] Optimizer& optimizer() noexcept;
    [[nodiscard]] std::span<const Parameter> parameters() const noexcept;

private:
    friend class ReplicaTeam;
    /// Ends the step of a failed pass: waits for the reductions that were started, and ignores their errors. Gradients
    /// may be missing. The symbol is hidden, because only the library itself calls this function.
    [[gnu::visibility("hidden")]] void end_failed_step() noexcept;

    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace rueda::training
