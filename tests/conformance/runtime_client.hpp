// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <memory>

#include "base/settings/config.hpp"
#include "collectives/control_plane.hpp"
#include "core/runtime/runtime.hpp"
#include "tests/conformance/client.hpp"

namespace rueda::tests {

/// A client over a Runtime, in the world or in a process set. Each rank has its own Runtime, so ranks may be threads.
/// The Runtime shuts down when its last client is destroyed.
class RuntimeClient : public Client {
public:
    /// Creates the Runtime of a rank. All ranks of the job must call this function together.
    [[nodiscard]] static Result<std::unique_ptr<RuntimeClient>> create(
        const base::Config& config, std::unique_ptr<collectives::ControlPlane> control_plane);

    /// Creates a process set from ranks of the job, and returns a client for it, or null if this rank is not a member.
    /// The set lives as long as the client. All ranks of the job must call this function together.
    [[nodiscard]] Result<std::unique_ptr<RuntimeClient>> add_set(const std::vector<int>& ranks);
    /// Creates a process set like add_set(), but only its members call this function.
    [[nodiscard]] Result<std::unique_ptr<RuntimeClient>> add_set_among(const std::vector<int>& ranks);

    [[nodiscard]] int rank() const override;
    [[nodiscard]] int size() const override;
    [[nodiscard]] int local_size() const override;
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
    /// Sends or receives a message in a blocking call.
    Status send(const Tensor& tensor, int peer, std::int32_t tag);
    Status receive(const Tensor& tensor, int peer, std::int32_t tag);
    Result<PendingPointer> start_send(const Tensor& tensor, int peer, std::int32_t tag) override;
    Result<PendingPointer> start_receive(const Tensor& tensor, int peer, std::int32_t tag) override;
    Status barrier() override;
    Result<int> join(bool counted) override;
    Result<void*> allocate(std::size_t bytes) override;
    Status deallocate(void* memory) override;
    Status shutdown() override;

    [[nodiscard]] core::Runtime& runtime() { return *runtime_; }
    [[nodiscard]] const core::SetIdentity& identity() const { return set_->identity(); }
    [[nodiscard]] std::shared_ptr<const core::SetIdentity> shared_identity() const { return {set_, &set_->identity()}; }

private:
    RuntimeClient(std::shared_ptr<core::Runtime> runtime, std::shared_ptr<core::ProcessSet> set)
        : runtime_(std::move(runtime)), set_(std::move(set)) {}
    [[nodiscard]] Result<std::unique_ptr<RuntimeClient>> client_of(std::int32_t id);
    [[nodiscard]] int job_rank_of(int root) const;
    template <class Make>
    Result<PendingPointer> start_members(const std::string& name, const std::vector<Tensor>& tensors, Make&& make);
    Result<PendingPointer> call(Form form, const std::string& name, const core::Arguments& arguments,
                                const rueda_options& options);
    /// Starts or runs the operation as the C interface does it: from a request if there is no name, otherwise from the
    /// arguments.
    Status submit(Form form, const std::string& name, const core::Arguments& arguments, const rueda_options& options,
                  core::Completion& completion);
    core::MessageRequest message(bool sends, const Tensor& tensor, int peer, std::int32_t tag) const;
    Result<PendingPointer> start_message(core::MessageRequest&& request);

    std::shared_ptr<core::Runtime> runtime_;
    std::shared_ptr<core::ProcessSet> set_;
};

}  // namespace rueda::tests
