// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "rueda/rueda.hpp"
#include "tests/conformance/client.hpp"

namespace rueda::tests {

/// A client over the public C++ interface, in the world or in a process set whose first rank is rank 0 of the job. The
/// program must have called rueda::init() before; settings come from the environment.
class PublicClient : public Client {
public:
    explicit PublicClient(ProcessSet set = world());

    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return size_; }
    [[nodiscard]] int local_size() const override { return rueda::local_size(); }
    Result<PendingPointer> start_allreduce(const std::string& name, const Tensor& in, const Tensor& out,
                                           const Reduce& reduce) override;
    Result<PendingPointer> start_group(const std::string& name, const std::vector<Tensor>& tensors,
                                       const Reduce& reduce) override;
    Result<PendingPointer> start_grouped_allgather(const std::string& name,
                                                   const std::vector<Tensor>& tensors) override;
    Result<PendingPointer> start_grouped_reducescatter(const std::string& name, const std::vector<Tensor>& tensors,
                                                       const Reduce& reduce) override;
    Result<PendingPointer> start_broadcast(const std::string& name, const Tensor& tensor, int root) override;
    using Client::start_allgather;
    using Client::start_alltoall;
    Result<PendingPointer> start_allgather(const std::string& name, const Tensor& in, const Tensor* out) override;
    Result<PendingPointer> start_reducescatter(const std::string& name, const Tensor& in, const Tensor* out,
                                               const Reduce& reduce) override;
    Result<PendingPointer> start_alltoall(const std::string& name, const Tensor& in, const Splits& splits,
                                          const Tensor* out) override;
    Status allreduce(const std::string& name, const Tensor& in, const Tensor& out, const Reduce& reduce) override;
    Status broadcast(const std::string& name, const Tensor& tensor, int root) override;
    Status reducescatter(const std::string& name, const Tensor& in, const Tensor& out, const Reduce& reduce) override;
    Result<PendingPointer> allgather(const std::string& name, const Tensor& in, const Tensor* out) override;
    Result<PendingPointer> alltoall(const std::string& name, const Tensor& in, const Splits& splits,
                                    const Tensor* out) override;
    Result<PendingPointer> start_gather(const std::string& name, const Tensor& in, const Tensor* out,
                                        int root) override;
    Result<PendingPointer> start_scatter(const std::string& name, const Tensor& in, const Splits& splits,
                                         const Tensor* out, int root) override;
    Result<PendingPointer> start_reduce(const std::string& name, const Tensor& in, const Tensor& out, int root,
                                        const Reduce& reduce) override;
    Result<PendingPointer> gather(const std::string& name, const Tensor& in, const Tensor* out, int root) override;
    Result<PendingPointer> scatter(const std::string& name, const Tensor& in, const Splits& splits, const Tensor* out,
                                   int root) override;
    Status reduce(const std::string& name, const Tensor& in, const Tensor& out, int root,
                  const Reduce& reduce) override;
    Status barrier() override;
    Result<int> join(bool counted) override;
    Result<void*> allocate(std::size_t bytes) override;
    Status deallocate(void* memory) override;
    Status shutdown() override;

private:
    [[nodiscard]] AllreduceOptions options_of(const Reduce& reduce) const;
    [[nodiscard]] Options options() const { return {set_}; }

    ProcessSet set_;
    int rank_;
    int size_;
};

}  // namespace rueda::tests
