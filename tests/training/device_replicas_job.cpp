// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests rueda::training::DeviceReplicas with any number of processes, on the stand-in for NVIDIA's driver and NCCL, or
// on real GPUs. The arguments are the number of replicas in each process, and the number of GPUs of each process. Jobs
// with the same number of replicas in all processes together must have the same results, so all of them compare with
// one computation. With the third argument "killed", rank 1 dies in a run. The exit status is 1 if something is wrong.
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "collectives/cuda/cuda_api.hpp"
#include "rueda/error.hpp"
#include "rueda/rueda.hpp"
#include "rueda/training/device_replicas.hpp"
#include "tests/support/gpu_stand_in/api.hpp"
#ifndef RUEDA_ON_A_REAL_GPU
#include "tests/support/gpu_kernels.hpp"
#include "tests/support/gpu_stand_in/control.hpp"
#endif

namespace {

namespace training = rueda::training;
using rueda::collectives::cuda::CudaApi;
using rueda::collectives::cuda::CudaContext;
using rueda::collectives::cuda::CudaStream;
using rueda::collectives::cuda::DeviceAddress;

std::atomic<int> failures{0};  // relaxed suffices: the number is read only after the other threads have ended

void check(bool is_right, const std::string& what) {
    if (!is_right) {
        std::printf("rank %d: %s\n", rueda::rank(), what.c_str());
        failures.fetch_add(1, std::memory_order_relaxed);
    }
}

/// The sizes of the parameters. The last one has more than 8 MiB, so it is divided among the GPUs.
const std::vector<std::size_t> kSizes = {5, 0, 1000, 2'200'000};

/// Element `i` of the gradient of a worker. Sums of these numbers are exact, so the order of the additions does not
/// matter.
float gradient_of(int worker, int step, std::size_t parameter, std::size_t i) {
    return static_cast<float>((i * 37 + parameter * 11 + static_cast<std::size_t>(step) * 5) % 101 +
                              static_cast<std::size_t>(worker) * 3);
}
/// Returns what a reduced element must be, if each of `workers` workers has its own gradient.
float reduced(int workers, rueda::ReduceOp op, int step, std::size_t parameter, std::size_t i) {
    float sum = 0.0F;
    for (int worker = 0; worker < workers; ++worker) {
        sum += gradient_of(worker, step, parameter, i);
    }
    return op == rueda::ReduceOp::average ? sum / static_cast<float>(workers) : sum;
}
bool is_near(float value, float expected) { return std::abs(value - expected) <= 1e-6F * std::abs(expected); }

/// A GPU as one replica uses it: a stream, and tensors. All calls of a replica come from one thread at a time.
class ReplicaGpu {
public:
    explicit ReplicaGpu(int index) : api_(rueda::tests::gpu::open_cuda()), index_(index) {
        require(api_.init(0) == 0 && api_.primary_context_retain(&context_, index) == 0, "the device cannot be used");
        make_current();
        require(api_.stream_create_with_priority(&stream_, 1, 0) == 0, "no stream");
        for (const std::size_t size : kSizes) {
            for (std::vector<float*>* const tensors : {&values, &gradients}) {
                DeviceAddress memory = 0;
                require(size == 0 || api_.memory_allocate(&memory, size * sizeof(float)) == 0, "no device memory");
                tensors->push_back(reinterpret_cast<float*>(memory));
            }
            for (std::vector<float*>* const buffers : {&in_, &out}) {
                void* memory = nullptr;
                require(size == 0 || api_.host_allocate(&memory, size * sizeof(float), 1) == 0, "no pinned memory");
                buffers->push_back(static_cast<float*>(memory));
            }
        }
    }
    /// Makes the GPU's context current. Each thread of a replica calls this function once.
    void make_current() const { require(api_.context_push(context_) == 0, "cuCtxPushCurrent failed"); }
    [[nodiscard]] rueda::DeviceStream stream() const { return rueda::cuda_stream(index_, stream_); }
    [[nodiscard]] std::vector<training::DeviceParameter> parameters() const {
        std::vector<training::DeviceParameter> all;
        for (std::size_t p = 0; p < kSizes.size(); ++p) {
            const rueda::Shape shape{static_cast<std::int64_t>(kSizes[p])};
            all.push_back({"p" + std::to_string(p),
                           {values[p], rueda::DType::float32, shape},
                           {gradients[p], rueda::DType::float32, shape}});
        }
        return all;
    }

    /// Writes numbers to a tensor, by a copy in the stream. First waits until the stream has finished the previous
    /// copy.
    template <class Number>
    void write(std::size_t parameter, float* to, Number&& number) {
        require(api_.stream_synchronize(stream_) == 0, "cuStreamSynchronize failed");
        for (std::size_t i = 0; i < kSizes[parameter]; ++i) {
            in_[parameter][i] = number(i);
        }
        copy(parameter, to, in_[parameter]);
    }
    /// Puts a copy into the stream, without a wait.
    void copy(std::size_t parameter, float* to, const float* from) const {
        require(kSizes[parameter] == 0 ||
                    api_.copy_async(reinterpret_cast<DeviceAddress>(to), reinterpret_cast<DeviceAddress>(from),
                                    kSizes[parameter] * sizeof(float), stream_) == 0,
                "cuMemcpyAsync failed");
    }
    void synchronize() const { require(api_.stream_synchronize(stream_) == 0, "cuStreamSynchronize failed"); }

    std::vector<float*> values;
    std::vector<float*> gradients;
    std::vector<float*> out;  ///< pinned memory

private:
    static void require(bool condition, const char* what) {
        if (!condition) {
            std::printf("rank %d: %s\n", rueda::rank(), what);
            std::fflush(stdout);
            std::_Exit(1);
        }
    }

    CudaApi api_;
    int index_;
    CudaContext context_ = nullptr;
    CudaStream stream_ = nullptr;
    std::vector<float*> in_;  ///< pinned memory
};

using Gpus = std::vector<std::unique_ptr<ReplicaGpu>>;

std::vector<training::DeviceReplica> replicas_of(const Gpus& gpus) {
    std::vector<training::DeviceReplica> all;
    for (const auto& gpu : gpus) {
        all.push_back({gpu->stream(), gpu->parameters()});
    }
    return all;
}

void backward(Gpus& gpus, training::Replica& replica, int step) {
    ReplicaGpu& gpu = *gpus[static_cast<std::size_t>(replica.index())];
    for (std::size_t p = kSizes.size(); p-- > 0;) {
        gpu.write(p, gpu.gradients[p], [&](std::size_t i) { return gradient_of(replica.worker(), step, p, i); });
        replica.gradient_ready(p);
    }
}

/// Makes each replica's thread use the GPU of this replica.
void begin(training::DeviceReplicas& replicas, Gpus& gpus) {
    replicas.on_each(
        [&](training::Replica& replica) { gpus[static_cast<std::size_t>(replica.index())]->make_current(); });
}

/// Compares the numbers that each replica has copied to its pinned memory.
void check_out(Gpus& gpus, const std::string& what, rueda::ReduceOp op, int step, int workers, float factor = 1.0F) {
    for (std::size_t k = 0; k < gpus.size(); ++k) {
        gpus[k]->synchronize();
        for (std::size_t p = 0; p < kSizes.size(); ++p) {
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < kSizes[p]; ++i) {
                wrong += is_near(gpus[k]->out[p][i], factor * reduced(workers, op, step, p, i)) ? 0U : 1U;
            }
            check(wrong == 0, what + ": " + std::to_string(wrong) + " wrong elements of parameter " +
                                  std::to_string(p) + " of replica " + std::to_string(k));
        }
    }
}

/// Copies the gradients into the parameters, as an update of the parameters would do. Then copies the parameters to the
/// host.
void update_and_read(training::DeviceReplicas& replicas, Gpus& gpus) {
    replicas.on_each([&](training::Replica& replica) {
        const ReplicaGpu& gpu = *gpus[static_cast<std::size_t>(replica.index())];
        for (std::size_t p = 0; p < kSizes.size(); ++p) {
            gpu.copy(p, gpu.values[p], gpu.gradients[p]);
            gpu.copy(p, gpu.out[p], gpu.values[p]);
        }
    });
}

void check_steps(Gpus& gpus, rueda::ReduceOp op) {
    training::DeviceReplicas replicas(replicas_of(gpus), {.op = op});
    begin(replicas, gpus);
    check(replicas.workers() == replicas.count() * rueda::size(), "wrong number of workers");
    for (int step = 0; step < 2; ++step) {
        replicas.run([&](training::Replica& replica) { backward(gpus, replica, step); });
        replicas.synchronize();
        update_and_read(replicas, gpus);
        check_out(gpus, "step " + std::to_string(step), op, step, replicas.workers());
    }
}

/// Makes one step that consists of two calls of run(). In a real program, the gradients would be accumulated over both
/// calls. Here, the second call simply writes the final gradients.
void check_passes(Gpus& gpus) {
    training::DeviceReplicas replicas(replicas_of(gpus), {.passes_per_step = 2});
    begin(replicas, gpus);
    replicas.run([&](training::Replica& replica) { backward(gpus, replica, 0); });
    replicas.run([&](training::Replica& replica) { backward(gpus, replica, 1); });
    replicas.synchronize();
    update_and_read(replicas, gpus);
    check_out(gpus, "two passes", rueda::ReduceOp::average, 1, replicas.workers(), 0.5F);
}

void check_broadcast(Gpus& gpus) {
    training::DeviceReplicas replicas(replicas_of(gpus));
    begin(replicas, gpus);
    const int root = rueda::size() - 1;
    // −1 means that in each process, all replicas copy from the process's own replica 0
    for (const int from : {root, -1}) {
        replicas.on_each([&](training::Replica& replica) {
            ReplicaGpu& gpu = *gpus[static_cast<std::size_t>(replica.index())];
            for (std::size_t p = 0; p < kSizes.size(); ++p) {
                gpu.write(p, gpu.values[p], [&](std::size_t i) { return gradient_of(replica.worker(), 9, p, i); });
            }
        });
        if (from >= 0) {
            replicas.broadcast(from);
        } else {
            replicas.copy_to_replicas();
        }
        const int worker = (from >= 0 ? from : rueda::rank()) * replicas.count();
        for (const auto& gpu : gpus) {
            for (std::size_t p = 0; p < kSizes.size(); ++p) {
                gpu->copy(p, gpu->out[p], gpu->values[p]);
                gpu->synchronize();
                bool is_right = true;
                for (std::size_t i = 0; i < kSizes[p]; ++i) {
                    is_right = is_right && gpu->out[p][i] == gradient_of(worker, 9, p, i);
                }
                check(is_right, "wrong values after a broadcast from " + std::to_string(from));
            }
        }
    }
}

/// A replica of the last rank fails in the middle of its pass. The step ends on all ranks, and the next one is right.
void check_failure(Gpus& gpus) {
    training::DeviceReplicas replicas(replicas_of(gpus));
    begin(replicas, gpus);
    std::string text;
    try {
        replicas.run([&](training::Replica& replica) {
            if (replica.worker() == replica.workers() - 1) {
                replica.gradient_ready(2);
                throw rueda::ResourceExhausted("no memory for the batch");
            }
            backward(gpus, replica, 0);
        });
    } catch (const rueda::ResourceExhausted& error) {
        text = error.what();
    }
    const int last = rueda::size() - 1;
    std::string expected = "no memory for the batch";
    if (replicas.count() > 1) {
        expected = "replica " + std::to_string(replicas.count() - 1) + ": " + expected;
    }
    check(text == (rueda::rank() == last ? expected : "rank " + std::to_string(last) + ": " + expected),
          "the failure is '" + text + "'");
    replicas.run([&](training::Replica& replica) { backward(gpus, replica, 3); });
    replicas.synchronize();
    update_and_read(replicas, gpus);
    check_out(gpus, "the step after a failure", rueda::ReduceOp::average, 3, replicas.workers());
    replicas.run([&](training::Replica& replica) { backward(gpus, replica, 4); });
}  // the destructor of `replicas` must work although its last step has not ended

void expect_refused(const std::string& part, const std::vector<training::DeviceReplica>& replicas,
                    const training::DeviceReplicasOptions& options = {}) {
    std::string text = "no error";
    try {
        const training::DeviceReplicas made(replicas, options);
    } catch (const rueda::InvalidArgument& error) {
        text = error.what();
    }
    check(text.find(part) != std::string::npos, "expected '" + part + "', got: " + text);
}

void check_mistakes(Gpus& gpus) {
    const std::vector<training::DeviceReplica> right = replicas_of(gpus);
    expect_refused("there are no replicas", {});
    expect_refused("op is max", right, {.op = rueda::ReduceOp::max});
    expect_refused("passes_per_step is 0", right, {.passes_per_step = 0});
    std::vector<training::DeviceReplica> wrong = right;
    wrong[0].stream.type = RUEDA_CPU;
    expect_refused("the device of replica 0 has type 0", wrong);
    wrong = right;
    wrong[0].parameters[3].gradient = wrong[0].parameters[2].gradient;
    expect_refused("are in the same memory", wrong);
    wrong = right;
    wrong[0].parameters[2].gradient = {gpus[0]->gradients[2], rueda::DType::int32, {1000}};
    expect_refused("its dtype is int32", {wrong[0]});
    if (gpus.size() > 1) {
        wrong = right;
        wrong[1].parameters.pop_back();
        expect_refused("replica 1 has 3 parameters, but replica 0 has 4", wrong);
        wrong = right;
        wrong[1].parameters[0].name = "other";
        expect_refused("parameter 0 of replica 1 is 'other', but of replica 0 'p0'", wrong);
        wrong = right;
        wrong[1].parameters[0].gradient = {gpus[1]->gradients[0], rueda::DType::float32, {4}};
        expect_refused("tensor 0 has 4 elements of float32 on replica 1", wrong);
    }
}

/// Rank 1 is killed in a run. The other ranks must get the error soon.
int loses_a_rank(Gpus& gpus) {
    training::DeviceReplicas replicas(replicas_of(gpus));
    begin(replicas, gpus);
    replicas.run([&](training::Replica& replica) { backward(gpus, replica, 0); });
    replicas.synchronize();
    try {
        replicas.run([&](training::Replica& replica) {
            if (rueda::rank() == 1 && replica.index() == replica.count() - 1) {
                replica.gradient_ready(3);
                std::raise(SIGKILL);
            }
            backward(gpus, replica, 1);
        });
        replicas.synchronize();
    } catch (const rueda::Aborted& error) {
        std::printf("rank %d: as expected: %s\n", rueda::rank(), error.what());
    }
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    const int count = argc > 1 ? std::stoi(argv[1]) : 2;
    const int devices = argc > 2 ? std::stoi(argv[2]) : 1;
#ifndef RUEDA_ON_A_REAL_GPU
    rueda::tests::gpu::reset(static_cast<std::uint64_t>(::getpid()), 8);
    rueda::tests::gpu::register_kernels();
#endif
    rueda::init();
    {
        Gpus gpus;
        for (int k = 0; k < count; ++k) {
#ifdef RUEDA_ON_A_REAL_GPU
            gpus.push_back(std::make_unique<ReplicaGpu>(rueda::local_device() + k % devices));
#else
            gpus.push_back(std::make_unique<ReplicaGpu>(rueda::rank() * devices + k % devices));
#endif
        }
        if (argc > 3) {
            return loses_a_rank(gpus);
        }
        check_mistakes(gpus);
        check_steps(gpus, rueda::ReduceOp::average);
        check_steps(gpus, rueda::ReduceOp::sum);
        check_passes(gpus);
        check_broadcast(gpus);
        check_failure(gpus);
        for (const auto& gpu : gpus) {
            gpu->synchronize();
        }
#ifndef RUEDA_ON_A_REAL_GPU
        for (const std::string& violation : rueda::tests::gpu::violations()) {
            check(false, violation);
        }
#endif
    }
    rueda::shutdown();
    if (failures.load(std::memory_order_relaxed) == 0) {
        std::printf("%d replicas on %d GPUs are right\n", count, devices);
    }
    return failures.load(std::memory_order_relaxed) == 0 ? 0 : 1;
}
