// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Several replicas of the model in one process, each on a GPU ("mirrored" training). docs/gpu.md has an overview.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rueda/rueda.hpp"
#include "rueda/training/replicas.hpp"

namespace rueda::training {

class DeviceReplicaTeam;  // the implementation

/// A parameter of one replica: two tensors in the memory of the replica's GPU, which the caller owns.
struct DeviceParameter {
    std::string name;
    TensorView values;
    TensorView gradient;  ///< floating-point numbers
};

/// A replica: its GPU, the stream in which the program computes on this GPU, and its parameters.
struct DeviceReplica {
    DeviceStream stream;
    std::vector<DeviceParameter> parameters;
};

struct DeviceReplicasOptions {
    ReduceOp op = ReduceOp::average;  ///< average or sum, over the replicas of all processes
    /// Number of runs per step, ≥ 1 (gradient accumulation). Each run adds to the gradients, and only the last run
    /// communicates. With ReduceOp::average, the reduced gradients are also divided by this number.
    std::int64_t passes_per_step = 1;
    ProcessSet process_set = world();
};

/// Trains K replicas of the model in one process, each on a GPU of its own (several replicas may also share a GPU).
/// Combines their gradients with those of the other processes:
///
///     rueda::training::DeviceReplicas replicas({first, second});  // K = 2
///     replicas.broadcast();
///     for each step:
///         replicas.run([&](Replica& replica) {      // on K threads at the same time
///             for each layer, from the last to the first:
///                 put the work that computes the gradient into the replica's stream
///                 replica.gradient_ready(index)
///         });
///         replicas.synchronize();                   // does not wait for the GPUs
///         replicas.on_each([&](Replica& replica) {  // each replica has the same gradients
///             put the work that updates the parameters into the replica's stream
///         });
///
/// The gradients are first added up among the replicas, in the order of their numbers, by kernels of Rueda. Then an
/// allreduce reduces them among the processes (by NCCL, docs/gpu.md), while the backward pass goes on. The result is
/// copied to all replicas. K replicas × P processes make the same steps as K × P processes, except for rounding. Work
/// is ordered by events: no call waits for a GPU.
///
/// Rueda has no optimizers for GPUs. The program updates the parameters of each replica, and all replicas make the same
/// update. If the optimizer has a state, each replica has its own copy of the state.
///
/// All processes of the set must make the same calls. This object's operations use the GPU of replica 0. On a rank, all
/// operations of a process set must use the same GPU, so the program's other operations of the set must use this GPU,
/// too. Threads: as for Replicas. The program must call cudaSetDevice on the thread of each replica, in on_each()
/// before the first run.
class RUEDA_API DeviceReplicas {
public:
    using Function = std::function<void(Replica&)>;

    /// All replicas have parameters with the same names, types and sizes in the same order. There are at most 16
    /// replicas. Allocates memory on the GPUs, to add up the largest gradient. Needs init(). Throws InvalidArgument if
    /// an option is out of its range or if the replicas do not fit together. Throws Unsupported if the process can use
    /// no GPU or Rueda has no kernels for the GPU. Throws ResourceExhausted if a GPU has not enough memory or the
    /// system refuses a thread. Does not communicate.
    explicit DeviceReplicas(std::vector<DeviceReplica> replicas, const DeviceReplicasOptions& options = {});
    DeviceReplicas(DeviceReplicas&& other) noexcept;
    DeviceReplicas& operator=(DeviceReplicas&& other) noexcept;
    /// Ends the threads. If reductions among the processes are still running, waits for them. The object must be
    /// destroyed before the parameters. Work that the program puts into the replicas' streams afterwards waits for the
    /// work of this object.
    ~DeviceReplicas();

    /// count() is the number of replicas in this process, and workers() the number in all processes of the set.
    [[nodiscard]] int count() const noexcept;
    [[nodiscard]] int workers() const noexcept;

    /// Copies the parameters of replica 0 of rank `root` to the replicas of all processes of the set. Later work in the
    /// streams of the replicas waits for the copies.
    void broadcast(int root = 0);
    /// Copies the parameters of replica 0 to the other replicas of this process, for example after the program restored
    /// a checkpoint. Does not communicate.
    void copy_to_replicas();

    /// Calls `pass` for each replica, each on its own thread, and returns when all have ended. Each replica must call
    /// gradient_ready() once for each parameter, when the work that computes the gradient is in its stream. Failures
    /// are treated as in Replicas::run(): they end the step on all processes. The contents of the gradients are then
    /// undefined, and later work in the replicas' streams waits until nothing uses the gradients any more.
    void run(const Function& pass);
    /// Calls `work` for each replica, each on its own thread, as Replicas::on_each() does.
    void on_each(const Function& work);

    /// Ends the step: later work in the stream of each replica waits until this replica has the reduced gradients. The
    /// function waits until the other processes have called their reductions, but it does not wait for a GPU. Throws
    /// InvalidArgument if runs are missing in this step. If a reduction fails, throws its error; the contents of the
    /// gradients are then undefined.
    void synchronize();

private:
    std::unique_ptr<DeviceReplicaTeam> team_;
};

}  // namespace rueda::training
