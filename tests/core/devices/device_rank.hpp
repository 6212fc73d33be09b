// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/cuda/cuda_api.hpp"
#include "core/pending/completion.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/runtime/runtime.hpp"
#include "rueda/rueda.h"
#include "tests/support/ranks.hpp"

namespace rueda::tests {

/// A rank with a Runtime, a simulated device, and a stream like that of a user's program. Ranks are threads of one
/// process.
///
/// Threads: the rank's own thread.
class DeviceRank {
public:
    using Make = std::function<Status(core::ProcessSet& set, const rueda_options& options, core::Request& request)>;

    /// The settings of the ranks in these tests.
    [[nodiscard]] static base::Config settings();
    /// All ranks must call the constructor. `device` is the number of the simulated device.
    DeviceRank(RankContext& context, int device, const base::Config& config = settings());
    ~DeviceRank();
    DeviceRank(const DeviceRank&) = delete;
    DeviceRank& operator=(const DeviceRank&) = delete;

    [[nodiscard]] core::Runtime& runtime() { return *runtime_; }
    [[nodiscard]] int rank() const { return context_.rank(); }
    [[nodiscard]] int size() const { return context_.size(); }
    [[nodiscard]] RankContext& context() { return context_; }
    [[nodiscard]] const collectives::cuda::CudaApi& cuda() const { return cuda_; }
    [[nodiscard]] rueda_device_stream stream() const { return {RUEDA_CUDA, device_, stream_}; }
    [[nodiscard]] collectives::cuda::CudaStream own_stream() const { return stream_; }
    /// Options for tensors on this rank's device and stream.
    [[nodiscard]] rueda_options options(ReduceOp op = ReduceOp::sum) const;

    /// Allocates device memory, and lets the stream write `values` into it.
    [[nodiscard]] float* put(std::span<const float> values);
    /// Does the same as put(), but the memory is never freed. After an abort, nothing ensures that an operation ends
    /// before its memory is freed.
    [[nodiscard]] float* put_for_ever(std::span<const float> values);
    /// Allocates device memory, and lets the stream fill it with bytes that cannot be mistaken for a result.
    [[nodiscard]] float* garbage(std::size_t count);
    /// Allocates device memory with Rueda, and lets the stream write `values` into it. The test must pass the
    /// memory to deallocate().
    [[nodiscard]] float* allocate_with_rueda(std::span<const float> values);
    void deallocate(float* memory);
    /// Lets the stream write `values` into memory that exists, without waiting.
    void write(float* memory, std::span<const float> values);
    /// Reads device memory after all work in the stream.
    [[nodiscard]] std::vector<float> get(const float* memory, std::size_t count);
    void synchronize();

    /// Makes a request with the function `make`, and starts the requested operation under the name `name`.
    [[nodiscard]] Status start(const std::string& name, const rueda_options& options, core::Completion& completion,
                               const Make& make);
    [[nodiscard]] Status start_in(core::ProcessSet& set, const std::string& name, const rueda_options& options,
                                  core::Completion& completion, const Make& make);
    /// Starts an operation, and makes the stream wait for its end.
    void run(const std::string& name, const rueda_options& options, const Make& make);
    /// An allreduce in place.
    [[nodiscard]] Status start_allreduce(const std::string& name, float* data, std::int64_t count,
                                         core::Completion& completion, ReduceOp op = ReduceOp::sum);
    void allreduce(const std::string& name, float* data, std::int64_t count, ReduceOp op = ReduceOp::sum);
    /// Runs an allreduce in place on `values`, which are in the CPU's memory.
    [[nodiscard]] Status allreduce_on_cpu(const std::string& name, std::span<float> values);
    /// Makes the stream wait for the end of an operation.
    [[nodiscard]] Status wait_on_stream(const core::Completion& completion) {
        return runtime_->wait_on_stream(completion, rank_stream_, 20);
    }
    /// Connects the ranks by an allreduce of one element, named "x". Then holds back all work of a device. All ranks
    /// must call this function.
    void connect_and_hold(int device, float* data);
    /// Does the same as connect_and_hold(). Then starts another allreduce. This allreduce is launched, but cannot end
    /// while the device's work is held back.
    void launch_while_held(int device, float* data, core::Completion& completion);
    /// Waits until all ranks have entered this phase.
    void meet(const std::string& phase);

private:
    [[nodiscard]] float* allocate(std::size_t count);
    void check(collectives::cuda::CudaResult result, const char* call) const;

    RankContext& context_;
    const int device_;
    collectives::cuda::CudaApi cuda_;
    collectives::cuda::CudaContext cuda_context_ = nullptr;
    collectives::cuda::CudaStream stream_ = nullptr;
    rueda_device_stream rank_stream_{};
    std::vector<collectives::cuda::DeviceAddress> memory_;
    std::vector<void*> pinned_;
    std::vector<std::unique_ptr<core::Completion>> completions_;
    std::unique_ptr<core::Runtime> runtime_;
};

/// A float32 tensor with one dimension.
struct DeviceTensor {
    DeviceTensor(const float* data, std::int64_t count) : shape_(count) {
        tensor_ = {const_cast<float*>(data), &shape_, 1, RUEDA_FLOAT32};
    }
    DeviceTensor(const DeviceTensor&) = delete;
    DeviceTensor& operator=(const DeviceTensor&) = delete;
    [[nodiscard]] const rueda_tensor& c() const { return tensor_; }

private:
    std::int64_t shape_;
    rueda_tensor tensor_{};
};

/// Begins a test. In the first test of the process, makes eight simulated devices, and prints the seed that decides in
/// which order their work runs. The variable GPU_STAND_IN_SEED sets the seed. In every test, clears the list of misuses
/// that earlier tests made on purpose.
void begin_devices();
/// Runs `body` on ranks that are threads, with one simulated device for each. Requires that all ranks returned, that
/// nothing was left behind, and that the stand-in found no misuse.
void run_on_devices(int ranks, const std::function<void(DeviceRank&)>& body,
                    const base::Config& config = DeviceRank::settings());

/// Like run_on_devices(), with one rank for each letter. The letter names the rank's host: "aab" means two ranks on
/// host a and one on host b.
void run_on_hosts(const std::string& hosts, const std::function<void(DeviceRank&)>& body);

/// Like run_on_devices(), but all ranks share one simulated device.
void run_on_one_device(int ranks, const std::function<void(DeviceRank&)>& body);

/// Requires that all ranks returned. Also requires that no resources of Rueda and no communicators of NCCL were left
/// behind.
void check_passed(const RanksResult& result);

}  // namespace rueda::tests
