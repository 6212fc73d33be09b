// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A C++ program that uses Rueda's public interface with tensors in device memory. It runs with the stand-in for
// NVIDIA's driver and NCCL, with one simulated device for each rank. It exits with 1 if a result is wrong.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "collectives/cuda/cuda_api.hpp"
#include "rueda/rueda.hpp"
#include "tests/support/gpu_stand_in/api.hpp"
#ifndef RUEDA_ON_A_REAL_GPU
#include "tests/support/gpu_kernels.hpp"
#include "tests/support/gpu_stand_in/control.hpp"
#endif

namespace {

using rueda::collectives::cuda::CudaApi;
using rueda::collectives::cuda::CudaContext;
using rueda::collectives::cuda::CudaStream;
using rueda::collectives::cuda::DeviceAddress;

void check(bool condition, const char* what) {
    if (!condition) {
        std::fprintf(stderr, "rank %d: %s\n", rueda::rank(), what);
        std::_Exit(1);
    }
}

/// Device memory and a stream, like those of a program that uses the CUDA runtime.
class Gpu {
public:
    explicit Gpu(int index) : index_(index), api_(rueda::tests::gpu::open_cuda()) {
        CudaContext context = nullptr;
        check(api_.init(0) == 0 && api_.primary_context_retain(&context, index) == 0 && api_.context_push(context) == 0,
              "the device cannot be used");
        check(api_.stream_create_with_priority(&stream_, 1, 0) == 0, "no stream");
    }
    [[nodiscard]] rueda::DeviceStream stream() const { return rueda::cuda_stream(index_, stream_); }
    [[nodiscard]] float* put(const std::vector<float>& values) {
        DeviceAddress memory = 0;
        check(api_.memory_allocate(&memory, values.size() * sizeof(float)) == 0, "no memory");
        write(reinterpret_cast<float*>(memory), values);
        return reinterpret_cast<float*>(memory);
    }
    void write(float* memory, const std::vector<float>& values) {
        check(api_.copy_async(reinterpret_cast<DeviceAddress>(memory), reinterpret_cast<DeviceAddress>(values.data()),
                              values.size() * sizeof(float), stream_) == 0 &&
                  api_.stream_synchronize(stream_) == 0,
              "the copy failed");
    }
    [[nodiscard]] std::vector<float> get(const float* memory, std::size_t count) {
        std::vector<float> values(count);
        check(api_.copy_async(reinterpret_cast<DeviceAddress>(values.data()), reinterpret_cast<DeviceAddress>(memory),
                              count * sizeof(float), stream_) == 0 &&
                  api_.stream_synchronize(stream_) == 0,
              "the copy failed");
        return values;
    }

private:
    int index_;
    CudaApi api_;
    CudaStream stream_ = nullptr;
};

rueda::TensorView view_of(float* memory, std::int64_t count) { return {memory, rueda::DType::float32, {count}}; }

void expect_error(rueda::ErrorCode code, const std::string& part, const std::function<void()>& call) {
    try {
        call();
    } catch (const rueda::Error& error) {
        check(error.code() == code && std::string(error.what()).find(part) != std::string::npos, error.what());
        return;
    }
    check(false, ("no error, expected: " + part).c_str());
}

void average_gradients(Gpu& gpu) {
    float* const gradient = gpu.put(std::vector<float>(1000, static_cast<float>(rueda::rank())));
    const float expected = static_cast<float>(rueda::size() - 1) / 2;
    const rueda::TensorView view = view_of(gradient, 1000);
    const rueda::Handle handle =
        rueda::allreduce_async("layer1.weight", view, rueda::AllreduceOptions{.device = gpu.stream()});
    handle.wait_on_stream(gpu.stream());
    // From here on, the stream's work uses the average, although the host has not waited for the GPU.
    check(gpu.get(gradient, 1000) == std::vector<float>(1000, expected), "the average is wrong");
    handle.wait();
    rueda::allreduce("blocking", view, rueda::AllreduceOptions{.op = rueda::ReduceOp::sum, .device = gpu.stream()});
    check(gpu.get(gradient, 1) == std::vector<float>{expected * static_cast<float>(rueda::size())}, "the sum is wrong");
}

void broadcast_in_a_group(Gpu& gpu) {
    float* const a = gpu.put({static_cast<float>(rueda::rank()), 1.0F});
    float* const b = gpu.put({2.0F});
    const std::array<rueda::TensorView, 2> tensors{view_of(a, 2), view_of(b, 1)};
    rueda::grouped_allreduce("both", tensors,
                             rueda::AllreduceOptions{.op = rueda::ReduceOp::max, .device = gpu.stream()});
    check(gpu.get(a, 2) == std::vector<float>{static_cast<float>(rueda::size() - 1), 1.0F}, "the group is wrong");
    const rueda::TensorView view = view_of(b, 1);
    rueda::broadcast("b", view, 0, rueda::Options{.device = gpu.stream()});
    check(gpu.get(b, 1) == std::vector<float>{2.0F}, "the broadcast is wrong");
}

/// The tensors of a group are in one batch or in a few, so most of them are packed. They have different sizes and
/// alignments.
void add_small_gradients(Gpu& gpu, [[maybe_unused]] bool uses_nccl) {
    constexpr std::int64_t kTensors = 200;
    std::vector<rueda::TensorView> gradients;
    for (std::int64_t i = 0; i < kTensors; ++i) {
        std::vector<float> values(static_cast<std::size_t>(i % 4 + i + 1), static_cast<float>(rueda::rank() + i));
        gradients.push_back(view_of(gpu.put(values) + i % 4, i + 1));
    }
    rueda::grouped_allreduce("small gradients", gradients,
                             rueda::AllreduceOptions{.op = rueda::ReduceOp::sum, .device = gpu.stream()});
    const std::int64_t ranks = rueda::size();
    for (std::int64_t i = 0; i < kTensors; ++i) {
        const std::vector<float> expected(static_cast<std::size_t>(i + 1),
                                          static_cast<float>(ranks * (ranks - 1) / 2 + ranks * i));
        const auto* const memory = static_cast<const float*>(gradients[static_cast<std::size_t>(i)].data());
        check(gpu.get(memory, expected.size()) == expected, "a small gradient's sum is wrong");
    }
#ifdef RUEDA_HAS_KERNELS
    check(!uses_nccl || rueda::tests::gpu::calls("cuLaunchKernel") > 0, "the small gradients were not packed");
#endif
}

/// Every rank sends to the next rank, and the last rank to rank 0.
void sends_around(Gpu& gpu) {
    const int next = (rueda::rank() + 1) % rueda::size();
    const int before = (rueda::rank() + rueda::size() - 1) % rueda::size();
    constexpr std::int64_t kCount = 10'000;
    float* const out = gpu.put(std::vector<float>(kCount, static_cast<float>(rueda::rank())));
    float* const in = gpu.put(std::vector<float>(kCount, -1.0F));
    const rueda::Handle sent = rueda::send_async(view_of(out, kCount), next, 3, rueda::Options{.device = gpu.stream()});
    const rueda::Handle received =
        rueda::receive_async(view_of(in, kCount), before, 3, rueda::Options{.device = gpu.stream()});
    received.wait_on_stream(gpu.stream());
    check(gpu.get(in, kCount) == std::vector<float>(kCount, static_cast<float>(before)), "the message is wrong");
    sent.wait_on_stream(gpu.stream());
    received.wait();
    sent.wait();
}

/// NCCL has neither Adasum nor factors for integers, so these tensors move through the host's memory.
void uses_what_nccl_does_not_have(Gpu& gpu) {
    float* const gradient = gpu.put({4.0F, 8.0F});
    rueda::allreduce("adasum", view_of(gradient, 2),
                     rueda::AllreduceOptions{.op = rueda::ReduceOp::adasum, .device = gpu.stream()});
    check(gpu.get(gradient, 2) == std::vector<float>{4.0F, 8.0F}, "the Adasum of equal tensors is wrong");

    float* const half = gpu.put({2.0F});
    float* const whole = gpu.put({0.0F});
    const std::array<rueda::TensorView, 2> mixed{view_of(half, 1), rueda::TensorView(whole, rueda::DType::int32, {1})};
    rueda::grouped_allreduce(
        "mixed", mixed, rueda::AllreduceOptions{.op = rueda::ReduceOp::sum, .prescale = 0.5, .device = gpu.stream()});
    check(gpu.get(half, 1) == std::vector<float>{static_cast<float>(rueda::size())}, "the scaled sum is wrong");
    check(gpu.get(whole, 1) == std::vector<float>{0.0F}, "the scaled sum of integers is wrong");
}

/// The values of a large tensor of a rank: whole numbers, so that sums are exact in any order.
std::vector<float> large_values(std::int64_t count, int rank) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(i % 1000 + static_cast<std::size_t>(rank));
    }
    return values;
}

/// Ranks that share a GPU move batches of 3 MiB and more through GPU memory that they share (CUDA IPC), in pieces of 32
/// MiB.
void reduces_large_tensors(Gpu& gpu) {
    const rueda::AllreduceOptions sum{.op = rueda::ReduceOp::sum, .device = gpu.stream()};
    const int ranks = rueda::size();
    const auto check_sum = [&](const float* memory, std::int64_t count) {
        std::vector<float> expected = large_values(count, 0);
        for (float& value : expected) {
            value = value * static_cast<float>(ranks) + static_cast<float>(ranks * (ranks - 1) / 2);
        }
        check(gpu.get(memory, expected.size()) == expected, "the sum of a large tensor is wrong");
    };
    for (const std::int64_t count : {std::int64_t{1} << 19, (std::int64_t{1} << 23) + 77'777}) {
        float* const memory = gpu.put(large_values(count, rueda::rank()));
        rueda::allreduce_async("large " + std::to_string(count), view_of(memory, count), sum)
            .wait_on_stream(gpu.stream());
        check_sum(memory, count);
    }
    constexpr std::int64_t kCount = 300'000;
    std::vector<rueda::TensorView> gradients;
    for (int i = 0; i < 8; ++i) {
        gradients.push_back(view_of(gpu.put(large_values(kCount, rueda::rank())), kCount));
    }
    rueda::grouped_allreduce("large gradients", gradients, sum);
    for (const rueda::TensorView& gradient : gradients) {
        check_sum(static_cast<const float*>(gradient.data()), kCount);
    }
    constexpr std::int64_t kWeights = 1'000'000;
    float* const weights = gpu.put(large_values(kWeights, rueda::rank()));
    rueda::broadcast("large weights", view_of(weights, kWeights), ranks - 1, rueda::Options{.device = gpu.stream()});
    check(gpu.get(weights, kWeights) == large_values(kWeights, ranks - 1), "the broadcast of a large tensor is wrong");
#ifdef RUEDA_HAS_KERNELS
    check(ranks == 1 || rueda::tests::gpu::calls("cuIpcOpenMemHandle") == static_cast<std::size_t>(ranks - 1),
          "the ranks did not share GPU memory");
#endif
}

/// If wait_on_stream() is called for an operation on the CPU, it must not return success before the operation has
/// ended.
void waits_on_a_stream(Gpu& gpu) {
    std::vector<float> on_cpu(100'000, 1.0F);
    const rueda::Handle cpu =
        rueda::allreduce_async("on the CPU", on_cpu, rueda::AllreduceOptions{.op = rueda::ReduceOp::sum});
    cpu.wait_on_stream(gpu.stream());
    check(on_cpu.back() == static_cast<float>(rueda::size()), "the stream did not wait for the CPU");
    rueda::barrier(rueda::Options{.device = gpu.stream()});
}

/// There are fewer rows than ranks, so the last rank gets no row. The last rank passes no memory for the result.
void scatters_few_rows(Gpu& gpu) {
    const std::int64_t rows = rueda::size() > 1 ? rueda::size() - 1 : 1;
    float* const input = gpu.put(std::vector<float>(static_cast<std::size_t>(rows), 1.0F));
    const bool has_row = rueda::rank() < rows;
    float* const output = has_row ? gpu.put({0.0F}) : nullptr;
    rueda::reducescatter_async("rows", view_of(input, rows), view_of(output, has_row ? 1 : 0),
                               rueda::AllreduceOptions{.op = rueda::ReduceOp::sum, .device = gpu.stream()})
        .wait_on_stream(gpu.stream());
    check(!has_row || gpu.get(output, 1) == std::vector<float>{static_cast<float>(rueda::size())},
          "the rows are wrong");
}

/// Memory that Rueda allocates. The last array is given back while the GPU may still work on it.
void uses_memory_of_rueda(Gpu& gpu) {
    constexpr std::int64_t kCount = 100'000;
    const rueda::Device device = rueda::cuda_device(gpu.stream().index);
    const float sum = static_cast<float>(rueda::size() * (rueda::size() + 1)) / 2;
    const auto add = [&](const rueda::DeviceArray<float>& array) {
        gpu.write(array.data(), std::vector<float>(kCount, static_cast<float>(rueda::rank() + 1)));
        rueda::allreduce_async("in memory of Rueda", view_of(array.data(), kCount),
                               rueda::AllreduceOptions{.op = rueda::ReduceOp::sum, .device = gpu.stream()})
            .wait_on_stream(gpu.stream());
    };
    rueda::DeviceArray<float> kept(kCount, device);
    add(kept);
    check(gpu.get(kept.data(), kCount) == std::vector<float>(kCount, sum), "the sum in memory of Rueda is wrong");
    for (int i = 0; i < 5; ++i) {
        add(rueda::DeviceArray<float>(kCount, device));
    }
    const rueda::DeviceArray<float> moved = std::move(kept);
    add(moved);
    check(gpu.get(moved.data(), 1) == std::vector<float>{sum}, "the second sum in memory of Rueda is wrong");
    expect_error(rueda::ErrorCode::invalid_argument, "the type of the device is 0", [] {
        static_cast<void>(rueda::allocate(4, {rueda::DeviceType::cpu, 0}));
    });
    expect_error(rueda::ErrorCode::invalid_argument, "on GPU 63",
                 [] { static_cast<void>(rueda::allocate(4, rueda::cuda_device(63))); });
}

void mistakes(Gpu& gpu) {
    float* const data = gpu.put({1.0F});
    const rueda::TensorView view = view_of(data, 1);
    rueda::DeviceStream stream = gpu.stream();
    stream.type = 7;
    expect_error(rueda::ErrorCode::invalid_argument, "the type of the device is 7",
                 [&] { rueda::allreduce("x", view, rueda::AllreduceOptions{.device = stream}); });
    stream = {RUEDA_CPU, -1, nullptr};  // -1 is PyTorch's index of the CPU
    expect_error(rueda::ErrorCode::invalid_argument, "the index of the device is -1",
                 [&] { rueda::allreduce("x", view, rueda::AllreduceOptions{.device = stream}); });
    expect_error(rueda::ErrorCode::invalid_argument, "on GPU 63", [&] {
        rueda::allreduce("x", view, rueda::AllreduceOptions{.device = rueda::cuda_stream(63, nullptr)});
    });
    expect_error(rueda::ErrorCode::unsupported, "give its memory",
                 [&] { static_cast<void>(rueda::allgather("rows", view, rueda::Options{.device = gpu.stream()})); });
}

void uses_a_second_process_set(Gpu& gpu) {
    if (rueda::size() < 3) {
        return;
    }
    std::vector<int> members(static_cast<std::size_t>(rueda::size()) - 1);
    std::iota(members.begin(), members.end(), 0);
    const rueda::ProcessSet set = rueda::add_process_set(members);
    if (rueda::rank() + 1 < rueda::size()) {
        float* const data = gpu.put({1.0F});
        rueda::allreduce(
            "x", view_of(data, 1),
            rueda::AllreduceOptions{.op = rueda::ReduceOp::sum, .process_set = set, .device = gpu.stream()});
        check(gpu.get(data, 1) == std::vector<float>{static_cast<float>(members.size())},
              "the sum in the second process set is wrong");
    }
}

/// Two process sets of all ranks. They must exist before the first operation on a GPU, so that all sets use NCCL.
std::vector<rueda::ProcessSet> add_process_sets() {
    std::vector<int> ranks(static_cast<std::size_t>(rueda::size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    std::vector<rueda::ProcessSet> sets;
    if (rueda::size() > 1) {
        sets.push_back(rueda::add_process_set_among(ranks));
        sets.push_back(rueda::add_process_set_among(ranks));
    }
    return sets;
}

/// Half of the ranks start the operations of the sets in the opposite order. If Rueda did not launch the operations in
/// the same order on all GPUs, the GPUs would wait for each other.
void sums_in_different_orders(Gpu& gpu, std::vector<rueda::ProcessSet> sets) {
    constexpr int kSums = 50;
    if (rueda::rank() % 2 == 1) {
        std::reverse(sets.begin(), sets.end());
    }
    std::vector<float*> results;
    std::vector<rueda::Handle> handles;
    for (int i = 0; i < kSums; ++i) {
        for (const rueda::ProcessSet& set : sets) {
            results.push_back(gpu.put(std::vector<float>(100, static_cast<float>(i))));
            handles.push_back(rueda::allreduce_async(
                "sum " + std::to_string(i), view_of(results.back(), 100),
                rueda::AllreduceOptions{.op = rueda::ReduceOp::sum, .process_set = set, .device = gpu.stream()}));
        }
    }
    for (const rueda::Handle& handle : handles) {
        handle.wait_on_stream(gpu.stream());
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
        const auto expected = static_cast<float>(i / sets.size()) * static_cast<float>(rueda::size());
        check(gpu.get(results[i], 100) == std::vector<float>(100, expected),
              "a sum in one of two process sets is wrong");
    }
}

/// The last rank dies in the middle of large allreduces. The others must get an error within a second, in addition to
/// the time of an allreduce.
void loses_a_rank(Gpu& gpu) {
    float* const gradient = gpu.put(std::vector<float>(8'000'000, 1.0F));
    const rueda::TensorView view = view_of(gradient, 8'000'000);
    auto began = std::chrono::steady_clock::now();
    const auto seconds = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    };
    const auto reduce = [&] {
        began = std::chrono::steady_clock::now();
        rueda::allreduce("large", view, rueda::AllreduceOptions{.op = rueda::ReduceOp::max, .device = gpu.stream()});
    };
    reduce();  // the first operation also compiles the kernels, and connects the ranks
    reduce();
    const double limit = 1 + seconds();
    if (rueda::rank() + 1 == rueda::size()) {
        const rueda::Handle handle = rueda::allreduce_async(
            "large", view, rueda::AllreduceOptions{.op = rueda::ReduceOp::max, .device = gpu.stream()});
        ::kill(::getpid(), SIGKILL);
    }
    try {
        for (;;) {
            reduce();
        }
    } catch (const rueda::Aborted& error) {
        const double took = seconds();
        std::printf("rank %d has no peer any more, after %.3f s: %s\n", rueda::rank(), took, error.what());
        std::fflush(stdout);
        check(took < limit, "the death of a rank was noticed too late");
    }
    // This rank had opened GPU memory of the dead rank. Its GPU must still work.
    const std::vector<float> ones(100'000, 1.0F);
    check(gpu.get(gpu.put(ones), ones.size()) == ones, "the GPU has an error after the death of a rank");
    std::printf("the GPU of rank %d still works\n", rueda::rank());
    std::fflush(stdout);
}

#ifndef RUEDA_ON_A_REAL_GPU
/// Rank 1 is killed while the GPUs of all ranks work on an operation that cannot end. The other ranks must learn of it
/// within a second.
int dies_with_work_in_flight(Gpu& gpu) {
    average_gradients(gpu);
    const rueda::TensorView view = view_of(gpu.put({1.0F}), 1);
    rueda::barrier();
    if (rueda::rank() == 1) {
        rueda::tests::gpu::hold_device(gpu.stream().index);
    }
    const rueda::Handle handle =
        rueda::allreduce_async("in flight", view, rueda::AllreduceOptions{.device = gpu.stream()});
    handle.wait_on_stream(gpu.stream());  // launched on all ranks
    rueda::barrier();
    if (rueda::rank() == 1) {
        static_cast<void>(std::raise(SIGKILL));
    }
    const auto began = std::chrono::steady_clock::now();
    expect_error(rueda::ErrorCode::aborted, "rank 1", [&] { handle.wait(); });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    std::printf("noticed after %.3f s\n", took.count());
    check(took.count() < 1, "the end of rank 1 was noticed too late");
    try {
        rueda::shutdown();
    } catch (const rueda::Error&) {  // shutdown() throws the reason of the abort again
    }
    std::printf("survived\n");
    return 0;
}

/// The ranks share GPU memory. Rank 1 is killed before its GPU has filled its part of this memory. The other ranks wait
/// for this part, and must learn of the death within a second.
int dies_with_shared_memory(Gpu& gpu) {
    constexpr std::int64_t kCount = 1'000'000;
    constexpr double kPause = 0.5;  // seconds until rank 1 dies
    const rueda::TensorView view = view_of(gpu.put(std::vector<float>(kCount, 1.0F)), kCount);
    const rueda::AllreduceOptions options{.device = gpu.stream()};
    rueda::allreduce("before", view, options);
    rueda::barrier();
    if (rueda::rank() == 1) {
        rueda::tests::gpu::hold_device(gpu.stream().index);
    }
    const rueda::Handle handle = rueda::allreduce_async("in flight", view, options);
    if (rueda::rank() == 1) {
        ::usleep(static_cast<useconds_t>(kPause * 1e6));  // when rank 1 dies, the other ranks may be in any state
        static_cast<void>(std::raise(SIGKILL));
    }
    const auto began = std::chrono::steady_clock::now();
    expect_error(rueda::ErrorCode::aborted, "rank 1", [&] { handle.wait(); });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    std::printf("noticed after %.3f s\n", took.count() - kPause);
    check(took.count() - kPause < 1, "the end of rank 1 was noticed too late");
    try {
        rueda::shutdown();
    } catch (const rueda::Error&) {  // shutdown() throws the reason of the abort again
    }
    check(rueda::tests::gpu::violations().empty(), "the stand-in found a misuse");
    std::printf("survived\n");
    return 0;
}
#endif

}  // namespace

/// The first argument is "share" if all ranks use one device without NCCL, and "share-nccl" if NCCL connects them
/// although they use one device. If there is a second argument, one rank dies. With "killed", it dies while its device
/// works. With "killed-ipc", it dies while the ranks use GPU memory that they share.
int main(int argc, char** argv) {
#ifndef RUEDA_ON_A_REAL_GPU
    rueda::tests::gpu::reset(static_cast<std::uint64_t>(::getpid()), 4);
    rueda::tests::gpu::register_kernels();
#endif
    rueda::init();
    const std::string sharing = argc > 1 ? argv[1] : "own";
#ifdef RUEDA_ON_A_REAL_GPU
    Gpu gpu(sharing.starts_with("share") ? 0 : rueda::local_device());
#else
    Gpu gpu(sharing.starts_with("share") || sharing == "killed-ipc" ? 0 : rueda::rank());
    if (sharing == "killed" || sharing == "killed-ipc") {
        return sharing == "killed" ? dies_with_work_in_flight(gpu) : dies_with_shared_memory(gpu);
    }
#endif
    if (argc > 2) {
        loses_a_rank(gpu);
        return 0;
    }
    const std::vector<rueda::ProcessSet> sets = add_process_sets();
    expect_error(rueda::ErrorCode::invalid_argument, "on GPU 63", [&] {
        rueda::allreduce("x", view_of(gpu.put({1.0F}), 1),
                         rueda::AllreduceOptions{.device = rueda::cuda_stream(63, nullptr)});
    });
    average_gradients(gpu);
    broadcast_in_a_group(gpu);
    add_small_gradients(gpu, sharing != "share" && sharing != "ipc");
    uses_what_nccl_does_not_have(gpu);
    if (sharing == "share" || sharing == "ipc") {
        reduces_large_tensors(gpu);
    }
    sends_around(gpu);
    waits_on_a_stream(gpu);
    scatters_few_rows(gpu);
    uses_memory_of_rueda(gpu);
    mistakes(gpu);
    uses_a_second_process_set(gpu);
    sums_in_different_orders(gpu, sets);
#ifndef RUEDA_ON_A_REAL_GPU
    check(rueda::tests::gpu::violations().empty(), "the stand-in found a misuse");
#endif
    rueda::shutdown();
    std::printf("averaged on device %d\n", gpu.stream().index);
    return 0;
}
