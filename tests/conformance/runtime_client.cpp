// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/conformance/runtime_client.hpp"

#include <algorithm>

#include "core/operations/groups.hpp"
#include "core/operations/requests.hpp"

namespace rueda::tests {
namespace {

using core::Completion;
using core::Request;

class RuntimePending : public Pending {
public:
    RuntimePending(core::Runtime& runtime, std::uint32_t members) : runtime_(runtime), completion_(members) {}
    ~RuntimePending() override {
        if (!completion_.done()) {
            // The shutdown ends all pending operations, so no thread uses the completion afterwards.
            static_cast<void>(runtime_.shutdown());
        }
    }
    Status wait(double timeout_seconds) override { return runtime_.wait(completion_, timeout_seconds); }
    bool ready() override { return runtime_.poll(completion_); }
    Tensor output(std::size_t index) override {
        const Completion::Output& output = completion_.output(static_cast<std::uint32_t>(index));
        return {output.memory.get(), output.dtype, output.shape};
    }
    std::vector<std::int64_t> received_splits() override { return completion_.received_splits; }
    /// Marks an operation as ended that was refused at once.
    void never_started() {
        while (!completion_.done()) {
            completion_.complete_one({});
        }
    }
    [[nodiscard]] Completion& completion() { return completion_; }

private:
    core::Runtime& runtime_;
    Completion completion_;
};

rueda_tensor c_tensor(const Tensor& tensor) {
    return {tensor.data, tensor.shape.data(), static_cast<std::int32_t>(tensor.shape.size()),
            static_cast<std::int32_t>(tensor.dtype)};
}

rueda_options c_options(const Reduce& reduce) {
    rueda_options options = RUEDA_OPTIONS_INIT;
    options.prescale = reduce.prescale;
    options.postscale = reduce.postscale;
    options.reduce_op = static_cast<std::int32_t>(reduce.op);
    options.compression = static_cast<std::int32_t>(reduce.compression);
    return options;
}

rueda_options default_options() { return RUEDA_OPTIONS_INIT; }

Result<Request> allgather_request(const Tensor& in, const Tensor* out) {
    const rueda_tensor output = out != nullptr ? c_tensor(*out) : rueda_tensor{};
    Request request;
    RUEDA_RETURN_IF_FAILED(
        core::make_allgather(c_tensor(in), out != nullptr ? &output : nullptr, default_options(), request));
    return request;
}

Result<Request> alltoall_request(const Tensor& in, const Splits& splits, const Tensor* out, int size) {
    const rueda_tensor output = out != nullptr ? c_tensor(*out) : rueda_tensor{};
    const std::int64_t none = 0;  // not null, because an empty list of splits does not mean equal splits
    const std::int64_t* given = !splits.has_value() ? nullptr : splits->empty() ? &none : splits->data();
    Request request;
    RUEDA_RETURN_IF_FAILED(core::make_alltoall(c_tensor(in), given, splits.has_value() ? splits->size() : 0,
                                               out != nullptr ? &output : nullptr, size, default_options(), request));
    return request;
}

}  // namespace

Result<std::unique_ptr<RuntimeClient>> RuntimeClient::create(const base::Config& config,
                                                             std::unique_ptr<collectives::ControlPlane> control_plane) {
    Result<std::unique_ptr<core::Runtime>> runtime = core::Runtime::create(config, std::move(control_plane));
    RUEDA_RETURN_IF_FAILED(runtime.status());
    std::shared_ptr<core::Runtime> shared = std::move(runtime).value();
    std::shared_ptr<core::ProcessSet> world = shared->shared_world();
    return std::unique_ptr<RuntimeClient>(new RuntimeClient(std::move(shared), std::move(world)));
}

Result<std::unique_ptr<RuntimeClient>> RuntimeClient::add_set(const std::vector<int>& ranks) {
    const Result<std::int32_t> id = runtime_->process_sets().add(ranks);
    RUEDA_RETURN_IF_FAILED(id.status());
    if (std::find(ranks.begin(), ranks.end(), runtime_->group().rank) == ranks.end()) {
        return std::unique_ptr<RuntimeClient>();
    }
    return client_of(id.value());
}

Result<std::unique_ptr<RuntimeClient>> RuntimeClient::add_set_among(const std::vector<int>& ranks) {
    const Result<std::int32_t> id = runtime_->process_sets().add_among(ranks);
    RUEDA_RETURN_IF_FAILED(id.status());
    return client_of(id.value());
}

Result<std::unique_ptr<RuntimeClient>> RuntimeClient::client_of(std::int32_t id) {
    Result<std::shared_ptr<core::ProcessSet>> set = runtime_->process_sets().find(id);
    RUEDA_RETURN_IF_FAILED(set.status());
    return std::unique_ptr<RuntimeClient>(new RuntimeClient(runtime_, std::move(set).value()));
}

int RuntimeClient::rank() const { return set_->set_rank(); }
int RuntimeClient::size() const { return set_->set_size(); }
int RuntimeClient::local_size() const {
    const collectives::LocalGroup& job = runtime_->group();
    return static_cast<int>(std::count_if(job.members.begin(), job.members.end(),
                                          [this](int rank) { return set_->identity().member_of(rank).has_value(); }));
}

/// The scenarios count ranks within the set, so `root` is a rank of the set.
Status RuntimeClient::make_broadcast(const rueda_tensor& tensor, int root, Request& request) const {
    return core::make_broadcast(tensor, tensor, job_rank_of(root), set_->identity().ranks, rank(), default_options(),
                                request);
}

int RuntimeClient::job_rank_of(int root) const {
    const bool known = root >= 0 && root < size();
    return known ? set_->identity().ranks[static_cast<std::size_t>(root)] : root;
}

Result<Request> RuntimeClient::gather_request(const Tensor& in, const Tensor* out, int root) const {
    const rueda_tensor output = out != nullptr ? c_tensor(*out) : rueda_tensor{};
    Request request;
    RUEDA_RETURN_IF_FAILED(core::make_gather(c_tensor(in), out != nullptr ? &output : nullptr, job_rank_of(root),
                                             set_->identity().ranks, rank(), default_options(), request));
    return request;
}

Result<Request> RuntimeClient::scatter_request(const Tensor& in, const Splits& splits, const Tensor* out,
                                               int root) const {
    const rueda_tensor output = out != nullptr ? c_tensor(*out) : rueda_tensor{};
    const std::int64_t* const given = splits.has_value() ? splits->data() : nullptr;
    Request request;
    RUEDA_RETURN_IF_FAILED(core::make_scatter(c_tensor(in), given, splits.has_value() ? splits->size() : 0,
                                              out != nullptr ? &output : nullptr, job_rank_of(root),
                                              set_->identity().ranks, rank(), default_options(), request));
    return request;
}

Result<Request> RuntimeClient::reduce_request(const Tensor& in, const Tensor& out, int root,
                                              const Reduce& reduce) const {
    const rueda_tensor output = c_tensor(out);
    Request request;
    RUEDA_RETURN_IF_FAILED(core::make_reduce(c_tensor(in), rank() == root ? &output : nullptr, job_rank_of(root),
                                             set_->identity().ranks, rank(), c_options(reduce), request));
    return request;
}

Result<PendingPointer> RuntimeClient::start(const std::string& name, const Request& request) {
    RUEDA_RETURN_IF_FAILED(core::check_name(name.c_str()));
    auto pending = std::make_unique<RuntimePending>(*runtime_, 1);
    if (Status status = runtime_->start(*set_, name, request, pending->completion()); !status.is_ok()) {
        pending->never_started();
        return status;
    }
    return PendingPointer(std::move(pending));
}

Result<PendingPointer> RuntimeClient::run(const std::string& name, const Request& request) {
    RUEDA_RETURN_IF_FAILED(core::check_name(name.c_str()));
    auto pending = std::make_unique<RuntimePending>(*runtime_, 1);
    if (Status status = runtime_->run(*set_, name, request, pending->completion()); !status.is_ok()) {
        pending->never_started();  // the operation was refused or has already ended
        return status;
    }
    return PendingPointer(std::move(pending));
}

Result<PendingPointer> RuntimeClient::start_allreduce(const std::string& name, const Tensor& in, const Tensor& out,
                                                      const Reduce& reduce) {
    Request request;
    RUEDA_RETURN_IF_FAILED(core::make_allreduce(c_tensor(in), c_tensor(out), c_options(reduce), request));
    return start(name, request);
}

template <class Make>
Result<PendingPointer> RuntimeClient::start_members(const std::string& name, const std::vector<Tensor>& tensors,
                                                    Make&& make) {
    std::vector<std::string> names;
    std::vector<Request> requests(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        names.push_back(core::name_of_member(name, i, tensors.size()));
        requests[i].member = static_cast<std::uint32_t>(i);
        RUEDA_RETURN_IF_FAILED(make(c_tensor(tensors[i]), requests[i]));
    }
    auto pending = std::make_unique<RuntimePending>(*runtime_, static_cast<std::uint32_t>(tensors.size()));
    pending->completion().make_room(tensors.size());
    if (Status status = runtime_->start_group(*set_, name, names, requests, pending->completion()); !status.is_ok()) {
        pending->never_started();
        return status;
    }
    return PendingPointer(std::move(pending));
}

Result<PendingPointer> RuntimeClient::start_group(const std::string& name, const std::vector<Tensor>& tensors,
                                                  const Reduce& reduce) {
    return start_members(name, tensors, [&](const rueda_tensor& tensor, Request& request) {
        return core::make_allreduce(tensor, tensor, c_options(reduce), request);
    });
}

Result<PendingPointer> RuntimeClient::start_grouped_allgather(const std::string& name,
                                                              const std::vector<Tensor>& tensors) {
    return start_members(name, tensors, [&](const rueda_tensor& tensor, Request& request) {
        return core::make_allgather(tensor, nullptr, default_options(), request);
    });
}

Result<PendingPointer> RuntimeClient::start_grouped_reducescatter(const std::string& name,
                                                                  const std::vector<Tensor>& tensors,
                                                                  const Reduce& reduce) {
    return start_members(name, tensors, [&](const rueda_tensor& tensor, Request& request) {
        return core::make_reducescatter(tensor, nullptr, rank(), size(), c_options(reduce), request);
    });
}

Result<PendingPointer> RuntimeClient::start_broadcast(const std::string& name, const Tensor& tensor, int root) {
    const rueda_tensor c = c_tensor(tensor);
    Request request;
    RUEDA_RETURN_IF_FAILED(make_broadcast(c, root, request));
    return start(name, request);
}

Result<PendingPointer> RuntimeClient::start_allgather(const std::string& name, const Tensor& in, const Tensor* out) {
    const Result<Request> request = allgather_request(in, out);
    return request.is_ok() ? start(name, request.value()) : request.status();
}

Result<PendingPointer> RuntimeClient::allgather(const std::string& name, const Tensor& in, const Tensor* out) {
    const Result<Request> request = allgather_request(in, out);
    return request.is_ok() ? run(name, request.value()) : request.status();
}

Result<PendingPointer> RuntimeClient::start_reducescatter(const std::string& name, const Tensor& in, const Tensor* out,
                                                          const Reduce& reduce) {
    const rueda_tensor output = out != nullptr ? c_tensor(*out) : rueda_tensor{};
    Request request;
    RUEDA_RETURN_IF_FAILED(core::make_reducescatter(c_tensor(in), out != nullptr ? &output : nullptr, rank(), size(),
                                                    c_options(reduce), request));
    return start(name, request);
}

Result<PendingPointer> RuntimeClient::start_alltoall(const std::string& name, const Tensor& in, const Splits& splits,
                                                     const Tensor* out) {
    const Result<Request> request = alltoall_request(in, splits, out, size());
    return request.is_ok() ? start(name, request.value()) : request.status();
}

Result<PendingPointer> RuntimeClient::alltoall(const std::string& name, const Tensor& in, const Splits& splits,
                                               const Tensor* out) {
    const Result<Request> request = alltoall_request(in, splits, out, size());
    return request.is_ok() ? run(name, request.value()) : request.status();
}

Status RuntimeClient::allreduce(const std::string& name, const Tensor& in, const Tensor& out, const Reduce& reduce) {
    Request request;
    RUEDA_RETURN_IF_FAILED(core::make_allreduce(c_tensor(in), c_tensor(out), c_options(reduce), request));
    Completion completion;
    return runtime_->run(*set_, name, request, completion);
}

Status RuntimeClient::broadcast(const std::string& name, const Tensor& tensor, int root) {
    const rueda_tensor c = c_tensor(tensor);
    Request request;
    RUEDA_RETURN_IF_FAILED(make_broadcast(c, root, request));
    Completion completion;
    return runtime_->run(*set_, name, request, completion);
}

Status RuntimeClient::reducescatter(const std::string& name, const Tensor& in, const Tensor& out,
                                    const Reduce& reduce) {
    const rueda_tensor output = c_tensor(out);
    Request request;
    RUEDA_RETURN_IF_FAILED(core::make_reducescatter(c_tensor(in), &output, rank(), size(), c_options(reduce), request));
    Completion completion;
    return runtime_->run(*set_, name, request, completion);
}

Result<PendingPointer> RuntimeClient::start_gather(const std::string& name, const Tensor& in, const Tensor* out,
                                                   int root) {
    const Result<Request> request = gather_request(in, out, root);
    return request.is_ok() ? start(name, request.value()) : request.status();
}

Result<PendingPointer> RuntimeClient::gather(const std::string& name, const Tensor& in, const Tensor* out, int root) {
    const Result<Request> request = gather_request(in, out, root);
    return request.is_ok() ? run(name, request.value()) : request.status();
}

Result<PendingPointer> RuntimeClient::start_scatter(const std::string& name, const Tensor& in, const Splits& splits,
                                                    const Tensor* out, int root) {
    const Result<Request> request = scatter_request(in, splits, out, root);
    return request.is_ok() ? start(name, request.value()) : request.status();
}

Result<PendingPointer> RuntimeClient::scatter(const std::string& name, const Tensor& in, const Splits& splits,
                                              const Tensor* out, int root) {
    const Result<Request> request = scatter_request(in, splits, out, root);
    return request.is_ok() ? run(name, request.value()) : request.status();
}

Result<PendingPointer> RuntimeClient::start_reduce(const std::string& name, const Tensor& in, const Tensor& out,
                                                   int root, const Reduce& reduce) {
    const Result<Request> request = reduce_request(in, out, root, reduce);
    return request.is_ok() ? start(name, request.value()) : request.status();
}

Status RuntimeClient::reduce(const std::string& name, const Tensor& in, const Tensor& out, int root,
                             const Reduce& reduce) {
    const Result<Request> request = reduce_request(in, out, root, reduce);
    RUEDA_RETURN_IF_FAILED(request.status());
    Completion completion;
    return runtime_->run(*set_, name, request.value(), completion);
}

Result<int> RuntimeClient::join(bool counted) {
    core::Completion completion;
    RUEDA_RETURN_IF_FAILED(runtime_->start_join(completion, counted));
    RUEDA_RETURN_IF_FAILED(runtime_->wait(completion, -1));
    return static_cast<int>(completion.joined_last);
}

Status RuntimeClient::barrier() {
    Request request;
    RUEDA_RETURN_IF_FAILED(core::make_barrier(default_options(), request));
    Completion completion;
    return runtime_->run(*set_, "", request, completion);
}

Result<void*> RuntimeClient::allocate(std::size_t bytes) { return runtime_->allocate(bytes); }
Status RuntimeClient::deallocate(void* memory) { return runtime_->deallocate(memory); }

Status RuntimeClient::shutdown() {
    // May report an earlier failure, but ends this rank's part of the job in any case.
    static_cast<void>(runtime_->shutdown());
    return {};
}

}  // namespace rueda::tests
