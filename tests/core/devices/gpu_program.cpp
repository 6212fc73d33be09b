// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A C++ program that uses Rueda's public interface with tensors in device memory. It runs with the stand-in for
// NVIDIA's driver and NCCL, with one simulated device for each rank. It exits with 1 if a result is wrong.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "collectives/cuda/cuda_api.hpp"
#include "rueda/rueda.hpp"
#include "tests/support/gpu_stand_in/api.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

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

/// Device memory with a stream, as a program of the CUDA runtime has them.
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
        check(api_.copy_async(memory, reinterpret_cast<DeviceAddress>(values.data()), values.size() * sizeof(float),
                              stream_) == 0 &&
                  api_.stream_synchronize(stream_) == 0,
              "the copy failed");
        return reinterpret_cast<float*>(memory);
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

void average_gradients(Gpu& gpu) {
    float* const gradient = gpu.put(std::vector<float>(1000, static_cast<float>(rueda::rank())));
    const float expected = static_cast<float>(rueda::size() - 1) / 2;
    const rueda::TensorView view = view_of(gradient, 1000);
    const rueda::Handle handle =
        rueda::allreduce_async("layer1.weight", view, rueda::AllreduceOptions{.device = gpu.stream()});
    handle.wait_on_stream(gpu.stream());
    // Work that is put into the stream from here on uses the average; the host has not waited for the GPU.
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

void expect_error(rueda::ErrorCode code, const std::string& part, const std::function<void()>& call) {
    try {
        call();
    } catch (const rueda::Error& error) {
        check(error.code() == code && std::string(error.what()).find(part) != std::string::npos, error.what());
        return;
    }
    check(false, ("no error, expected: " + part).c_str());
}

void mistakes(Gpu& gpu) {
    float* const data = gpu.put({1.0F});
    const rueda::TensorView view = view_of(data, 1);
    rueda::DeviceStream stream = gpu.stream();
    stream.type = 7;
    expect_error(rueda::ErrorCode::invalid_argument, "the type of the device is 7",
                 [&] { rueda::allreduce("x", view, rueda::AllreduceOptions{.device = stream}); });
    expect_error(rueda::ErrorCode::invalid_argument, "is on device", [&] {
        rueda::allreduce("x", view, rueda::AllreduceOptions{.device = rueda::cuda_stream(6, nullptr)});
    });
    expect_error(rueda::ErrorCode::unsupported, "give its memory",
                 [&] { static_cast<void>(rueda::allgather("rows", view, rueda::Options{.device = gpu.stream()})); });
    std::vector<int> all(static_cast<std::size_t>(rueda::size()));
    for (int rank = 0; rank < rueda::size(); ++rank) {
        all[static_cast<std::size_t>(rank)] = rank;
    }
    if (rueda::size() > 2) {
        all.pop_back();
        const rueda::ProcessSet set = rueda::add_process_set(all);
        if (rueda::rank() + 1 < rueda::size()) {
            expect_error(rueda::ErrorCode::unsupported, "in process set 0 already", [&] {
                rueda::allreduce("x", view, rueda::AllreduceOptions{.process_set = set, .device = gpu.stream()});
            });
        }
    }
}

}  // namespace

int main() {
    rueda::tests::gpu::reset(static_cast<std::uint64_t>(::getpid()), 4);
    rueda::init();
    Gpu gpu(rueda::rank());
    average_gradients(gpu);
    broadcast_in_a_group(gpu);
    mistakes(gpu);
    check(rueda::tests::gpu::violations().empty(), "the stand-in found a misuse");
    rueda::shutdown();
    std::printf("averaged on device %d\n", gpu.stream().index);
    return 0;
}
