// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "collectives/cuda/cuda_api.hpp"
#include "rueda/rueda.h"
#include "tests/conformance/client.hpp"
#include "tests/conformance/runtime_client.hpp"
#include "tests/conformance/scenarios.hpp"

namespace rueda::tests {

/// The scenarios of the conformance suite, without those whose results on GPUs differ by more than rounding.
/// docs/gpu.md describes these differences.
[[nodiscard]] std::vector<Scenario> scenarios_on_gpus();

/// A client whose operations run on a simulated GPU. The scenarios of the suite have their tensors in the CPU's memory:
/// this class copies the tensors of an operation to the GPU before the call and copies them back when the operation has
/// ended. It copies the inputs back as well, so that the scenarios notice it if the GPU writes to an input. Some
/// operations run in the CPU's memory. These are operations without a tensor (barriers, joins), and operations whose
/// outputs Rueda must allocate because only Rueda learns their sizes (a grouped allgather).
///
/// About half of the waits are waits of the stream (wait_on_stream): the results are copied back in the stream, and the
/// host waits for the end of the operation only afterwards. In the other half, only the host waits.
class DeviceClient : public Client {
public:
    /// `host` must outlive this object. `device` is the number of the simulated GPU. The seed decides for which
    /// operations the stream waits.
    DeviceClient(RuntimeClient& host, int device, std::uint64_t seed);
    ~DeviceClient() override;

    [[nodiscard]] int rank() const override { return host_.rank(); }
    [[nodiscard]] int size() const override { return host_.size(); }
    [[nodiscard]] int local_size() const override { return host_.local_size(); }
    [[nodiscard]] bool allocates_outputs() const override;
    [[nodiscard]] bool rounds_every_step() const override { return true; }
    Result<PendingPointer> call_allreduce(Form form, const std::string& name, const Tensor& in, const Tensor& out,
                                          const Reduce& reduce) override;
    Result<PendingPointer> call_broadcast(Form form, const std::string& name, const Tensor& tensor, int root) override;
    Result<PendingPointer> call_allgather(Form form, const std::string& name, const Tensor& in,
                                          const Tensor* out) override;
    Result<PendingPointer> call_reducescatter(Form form, const std::string& name, const Tensor& in, const Tensor* out,
                                              const Reduce& reduce) override;
    Result<PendingPointer> call_alltoall(Form form, const std::string& name, const Tensor& in, const Splits& splits,
                                         const Tensor* out) override;
    Result<PendingPointer> call_gather(Form form, const std::string& name, const Tensor& in, const Tensor* out,
                                       int root) override;
    Result<PendingPointer> call_scatter(Form form, const std::string& name, const Tensor& in, const Splits& splits,
                                        const Tensor* out, int root) override;
    Result<PendingPointer> call_reduce(Form form, const std::string& name, const Tensor& in, const Tensor& out,
                                       int root, const Reduce& reduce) override;
    Result<PendingPointer> start_group(const std::string& name, const std::vector<Tensor>& tensors,
                                       const Reduce& reduce) override;
    Result<PendingPointer> start_grouped_allgather(const std::string& name,
                                                   const std::vector<Tensor>& tensors) override {
        return host_.start_grouped_allgather(name, tensors);
    }
    Result<PendingPointer> start_grouped_reducescatter(const std::string& name, const std::vector<Tensor>& tensors,
                                                       const Reduce& reduce) override;
    Result<PendingPointer> start_send(const Tensor& tensor, int peer, std::int32_t tag) override {
        return start_message(true, tensor, peer, tag);
    }
    Result<PendingPointer> start_receive(const Tensor& tensor, int peer, std::int32_t tag) override {
        return start_message(false, tensor, peer, tag);
    }
    Status barrier() override { return host_.barrier(); }
    Result<int> join(bool counted) override { return host_.join(counted); }
    Result<void*> allocate(std::size_t bytes) override { return host_.allocate(bytes); }
    Status deallocate(void* memory) override { return host_.deallocate(memory); }
    Status shutdown() override { return host_.shutdown(); }

    /// Returns the number of operations that this object has started on its GPU.
    [[nodiscard]] std::size_t on_device() const { return on_device_; }
    /// Returns the number of operations for which the stream waits instead of the host.
    [[nodiscard]] std::size_t stream_waits() const {
        const std::lock_guard lock(random_mutex_);
        return stream_waits_;
    }

private:
    /// Returns the stream that is to wait for the next operation, or nothing if the host is to wait.
    [[nodiscard]] std::optional<rueda_device_stream> draw_stream();
    template <class Make>
    Result<PendingPointer> call(Form form, const std::string& name, std::vector<Tensor> tensors, Make&& make);
    /// Starts a group. `tensors` are all tensors of its members. `make(stage, i, request)` makes the request of member
    /// i.
    template <class Make>
    Result<PendingPointer> start_members(const std::string& name, std::size_t count, std::vector<Tensor> tensors,
                                         std::vector<Tensor> outputs, std::shared_ptr<void> kept, Make&& make);
    Result<PendingPointer> start_message(bool sends, const Tensor& tensor, int peer, std::int32_t tag);
    [[nodiscard]] rueda_options options(const Reduce& reduce = {}) const;
    [[nodiscard]] int job_rank_of(int rank) const;

    RuntimeClient& host_;
    std::shared_ptr<core::ProcessSet> set_;
    collectives::cuda::CudaApi cuda_;
    collectives::cuda::CudaContext context_ = nullptr;
    collectives::cuda::CudaStream stream_ = nullptr;
    rueda_device_stream rank_stream_{};
    mutable std::mutex random_mutex_;  // protects the next two members
    std::mt19937_64 random_;
    std::size_t stream_waits_ = 0;
    std::atomic<std::size_t> on_device_{0};  // relaxed: tests read this number only after all threads have ended
};

}  // namespace rueda::tests
