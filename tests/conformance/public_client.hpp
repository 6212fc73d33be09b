// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "rueda/rueda.hpp"
#include "tests/conformance/client.hpp"

namespace rueda::tests {

/// A client over the public C++ interface, in the world or in a process set of which this rank is a member. Before a
/// client is created, rueda::init() must have been called, with settings from the environment, as in a user's program.
class PublicClient : public Client {
public:
    explicit PublicClient(ProcessSet set = world());

    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return static_cast<int>(ranks_.size()); }
    [[nodiscard]] int local_size() const override { return rueda::local_size(); }
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
                                                   const std::vector<Tensor>& tensors) override;
    Result<PendingPointer> start_grouped_reducescatter(const std::string& name, const std::vector<Tensor>& tensors,
                                                       const Reduce& reduce) override;
    Result<PendingPointer> start_send(const Tensor& tensor, int peer, std::int32_t tag) override;
    Result<PendingPointer> start_receive(const Tensor& tensor, int peer, std::int32_t tag) override;
    Status barrier() override;
    Result<int> join(bool counted) override;
    Result<void*> allocate(std::size_t bytes) override;
    Status deallocate(void* memory) override;
    Status shutdown() override;

private:
    [[nodiscard]] AllreduceOptions options_of(const Reduce& reduce) const;
    [[nodiscard]] Options options() const { return {set_}; }
    /// Converts a rank number of this client (in the world or in the process set) to the rank number in the job.
    /// Returns an invalid number unchanged.
    [[nodiscard]] int job_rank_of(int rank) const {
        return rank >= 0 && rank < size() ? ranks_[static_cast<std::size_t>(rank)] : rank;
    }

    ProcessSet set_;
    std::vector<std::int32_t> ranks_;
    int rank_;
};

}  // namespace rueda::tests
