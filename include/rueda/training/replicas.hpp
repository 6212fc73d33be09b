// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Several replicas of the model in one process, each on a thread of its own ("tower" or "mirrored" training).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "rueda/rueda.hpp"
#include "rueda/training/optimizer.hpp"

namespace rueda::training {

/// How the replicas of a process add up their gradients. In all four ways, no replica waits for another one during its
/// pass, and the sums have the same bits in every run. K is the number of replicas.
enum class ReplicaReduction : std::int32_t {
    /// For each parameter, the replica that is the last to compute the gradient adds up the gradients of all replicas.
    /// It does this in one pass over the memory: K reads and 1 write. So the slowest replica does most of the
    /// additions.
    to_one,
    /// The replicas form groups, for example one group for each socket. For each parameter, the last replica of a group
    /// to compute the gradient adds up the gradients of its group. The last group adds up the sums of the groups. With
    /// G groups, these are K + G reads and G + 1 writes. The bits of the sums differ from those of to_one and divided.
    hierarchical,
    /// Like to_one, but long gradients are divided into pieces, and all replicas share the additions. A replica adds up
    /// pieces each time it has a gradient, and at the end of its pass. This is a reduce-scatter among threads.
    divided,
    /// Each gradient is divided into K pieces. The sum of each piece goes from replica to replica, and each replica
    /// adds its own piece of the gradient: 2 (K − 1) reads and K − 1 writes. This way is usually slower than the
    /// others. The sum of each piece begins with another replica. With more than two replicas, the bits therefore
    /// differ from those of the other ways.
    ring,
};

/// Returns "to_one", "hierarchical", "divided" or "ring".
[[nodiscard]] RUEDA_API std::string_view name_of(ReplicaReduction reduction) noexcept;

struct ReplicasOptions {
    ReplicaReduction reduction = ReplicaReduction::divided;
    /// The number of replicas in a group of ReplicaReduction::hierarchical; the last group may be smaller. 0 means the
    /// smallest number whose square is at least K, the number of replicas.
    int group = 0;
    ReduceOp op = ReduceOp::average;  ///< average or sum, over the replicas of all processes
    /// Number of runs per step, ≥ 1 (gradient accumulation), as in DistributedOptimizerOptions.
    std::int64_t passes_per_step = 1;
    double max_norm = std::numeric_limits<double>::infinity();  ///< as in DistributedOptimizerOptions
    Compression compression = Compression::none;                ///< the format between hosts
    ProcessSet process_set = world();
};

class ReplicaRuns;  // a part of the implementation
class ReplicaTeam;  // the implementation

/// The argument of the functions that Replicas and DeviceReplicas call for each replica. The function gets the number
/// of its replica from this object, and reports its gradients to it. Threads: only the thread of the replica may use
/// the object, except for stopped().
class RUEDA_API Replica {
public:
    Replica(const Replica&) = delete;
    Replica& operator=(const Replica&) = delete;

    /// The number of this replica in its process, 0 … count() − 1.
    [[nodiscard]] int index() const noexcept { return index_; }
    /// The number of replicas in this process.
    [[nodiscard]] int count() const noexcept;
    /// worker() is the number of this replica among the replicas of all processes, 0 … workers() − 1. workers() is the
    /// number of all these replicas. A Sampler with these numbers as rank and size gives each replica its share of the
    /// samples.
    [[nodiscard]] int worker() const noexcept;
    [[nodiscard]] int workers() const noexcept;

    /// Says that this replica has written (or added) its gradient of parameter `parameter`. In the last run of a step,
    /// the replicas add up their gradients of this parameter as soon as all replicas have written them. Then the
    /// reduction among the processes begins. From this call until step() or synchronize(), the gradient must not be
    /// changed. This function does not wait for another replica, but it may add up gradients itself.
    ///
    /// Throws InvalidArgument if there is no such parameter, if this replica has already called gradient_ready() for
    /// this parameter in this run, or if the call is made in on_each(). If another replica has failed, throws an
    /// exception that is no std::exception. This exception ends the function of this replica, which must not catch it.
    void gradient_ready(std::size_t parameter);

    /// Whether another replica has failed, so that the result of this replica will not be used. A long computation can
    /// check this and return early.
    [[nodiscard]] bool stopped() const noexcept;

private:
    friend class ReplicaRuns;
    Replica(ReplicaRuns& runs, int index) noexcept : runs_(runs), index_(index) {}

    ReplicaRuns& runs_;
    int index_;
};

/// Trains K replicas of the model in one process, and combines their gradients with those of the other processes:
///
///     rueda::training::Replicas replicas(Adam{}, {first.parameters(), second.parameters()});  // K = 2
///     replicas.broadcast();
///     for each step:
///         replicas.run([&](Replica& replica) {    // on K threads at the same time
///             for each layer, from the last to the first:
///                 compute the gradient of this replica
///                 replica.gradient_ready(index)
///         });
///         replicas.step(rate);
///
/// The gradients are first added up among the replicas, in a fixed order, and then reduced among the processes while
/// the backward pass goes on. K replicas × P processes make the same steps as K × P processes, except for rounding.
/// With P = 1 and `to_one` or `divided`, the results have the same bits as those of K processes on one host. There is
/// one optimizer for each process, and its state exists once.
///
/// The replicas may share the memory of a parameter's values, or each replica has its own copy. Shared values need less
/// memory and less time in step(); they must not be written during run(). Own copies are for models whose layers own
/// their weights; step() copies the new values to them. Gradients are never shared. If the gradients of replica 0 are
/// in memory from rueda::allocate(), the processes of a host reduce them in place. For the other gradients, this memory
/// has no advantage.
///
/// All processes of the set must make the same calls. Threads: the object has K − 1 threads, which sleep between the
/// runs. Replica 0 runs on the thread of the caller. One thread at a time may call the functions of the object. A
/// forked process must not use or destroy the object. The function of a replica must not end its thread (pthread_exit),
/// and the thread of the caller must not be cancelled (pthread_cancel) during run(), on_each() or step().
///
/// The object's threads run on the cores that the caller of the constructor may use; a warning is logged if these are
/// fewer than K. use_cores() sets the threads of OpenMP for the calling thread only. If the functions of the replicas
/// use OpenMP, call omp_set_num_threads() on each of their threads, in on_each() before the first run.
class RUEDA_API Replicas {
public:
    using Function = std::function<void(Replica&)>;

    /// `replicas[k]` has the parameters of replica k, with the same names and sizes in the same order for all k. Needs
    /// init(). Throws InvalidArgument if an option is out of its range, if the parameters of the replicas differ, if
    /// two gradients overlap, or for the same reasons as DistributedOptimizer's constructor. Throws ResourceExhausted
    /// if the system refuses a thread. Does not communicate.
    Replicas(const OptimizerRule& rule, std::vector<std::vector<Parameter>> replicas,
             const ReplicasOptions& options = {});
    Replicas(Replicas&& other) noexcept;
    Replicas& operator=(Replicas&& other) noexcept;
    /// Ends the threads. Waits for the reductions that were started and have not ended, so the object must be destroyed
    /// before the gradients.
    ~Replicas();

    /// The number of replicas in this process.
    [[nodiscard]] int count() const noexcept;
    /// The number of replicas in all processes of the set, for plan_batch(), LearningRateOptions and Sampler. It is
    /// count() × the size of the set, so all processes must have the same number of replicas.
    [[nodiscard]] int workers() const noexcept;

    /// Copies the parameters and the optimizer's state from rank `root` to all ranks, as
    /// DistributedOptimizer::broadcast() does, and then to all replicas. Throws InvalidArgument if the process set does
    /// not have all ranks of the job.
    void broadcast(int root = 0);
    /// Copies the parameters of replica 0 to the replicas that have their own copies, for example after the program
    /// restored a checkpoint. Does not communicate.
    void copy_to_replicas();

    /// Calls `pass` for each replica, each on its own thread, and returns when all have ended. Each replica must call
    /// gradient_ready() once for each parameter.
    ///
    /// If a replica throws, the other replicas end at their next gradient_ready(), and the step ends on all processes:
    /// run() throws the error of this replica on every process. The text names the replica (if there are several) and,
    /// on other processes, the rank. A rueda::Error keeps its class; any other exception becomes Internal. A replica
    /// that did not call gradient_ready() for a parameter has failed, too. To notice a failure, the processes exchange
    /// three numbers at the end of each run().
    ///
    /// After a failure, the parameters are unchanged, and the next run() begins a new step. The gradients may contain
    /// sums, or parts of sums, and the earlier runs of the step are lost. So a program that adds to its gradients must
    /// set all of them to 0. If the reduction of a gradient cannot be started at all, for example because the program
    /// has a pending operation with the same name, the job ends.
    ///
    /// If the processes have different numbers of replicas, run() throws InvalidArgument on all processes.
    ///
    /// Throws InvalidArgument if the step already had `passes_per_step` runs. The function of a replica must not call
    /// run() or other functions of this class that use the threads; such a call throws InvalidArgument.
    void run(const Function& pass);

    /// Calls `work` for each replica, each on its own thread, for example for an evaluation. Does not communicate. If a
    /// replica throws, throws its error on this process, as run() does.
    void on_each(const Function& work);

    /// Waits for the gradients. Then the threads of all replicas update the parameters. The gradients are multiplied by
    /// `gradient_factor` first. Throws InvalidArgument if runs are missing in this step. Also throws the errors of
    /// DistributedOptimizer::step(). After an error, no parameter has changed.
    void step(double learning_rate, double gradient_factor = 1.0);
    /// Waits until the gradients of replica 0 are reduced over all replicas, as DistributedOptimizer::synchronize()
    /// does. The other replicas do not get the reduced gradients. With `hierarchical` and `ring`, some of their
    /// gradients contain sums afterwards.
    void synchronize();
    /// Ends the step without an update, as DistributedOptimizer::skip() does.
    void skip();

    /// The parameters of replica 0, the number of steps and the state, for checkpoints.
    [[nodiscard]] Optimizer& optimizer() noexcept;
    [[nodiscard]] std::span<const Parameter> parameters() const noexcept;

private:
    std::unique_ptr<ReplicaTeam> team_;
};

}  // namespace rueda::training
