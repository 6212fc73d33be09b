// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "tests/conformance/client.hpp"

namespace rueda::tests {

/// Over the public C++ interface, as a user's program: rueda::init() has been called, and its settings are those of the
/// environment.
class PublicClient : public Client {
public:
    PublicClient();

    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return size_; }
    [[nodiscard]] int local_size() const override { return local_size_; }
    Result<PendingPointer> start_allreduce(const std::string& name, const Tensor& in, const Tensor& out,
                                           const Reduce& reduce) override;
    Result<PendingPointer> start_group(const std::string& name, const std::vector<Tensor>& tensors,
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
    Status barrier() override;
    Result<void*> allocate(std::size_t bytes) override;
    Status deallocate(void* memory) override;
    Status shutdown() override;

private:
    int rank_;
    int size_;
    int local_size_;
};

}  // namespace rueda::tests
