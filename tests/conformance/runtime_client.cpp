// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/conformance/runtime_client.hpp"

#include <algorithm>

#include "core/messages/operation.hpp"
#include "core/operations/groups.hpp"
#include "core/operations/requests.hpp"

namespace rueda::tests {
namespace {

using collectives::Operation;
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
    /// Call this for an operation that was refused at once, or that a blocking call has ended. The runtime does not
    /// complete the Completion of such an operation.
    void take_as_ended() {
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

/// The output tensor as the C interface takes it. The pointer is null if Rueda shall allocate the output.
struct Output {
    explicit Output(const Tensor* out)
        : tensor(out != nullptr ? c_tensor(*out) : rueda_tensor{}), is_given(out != nullptr) {}
    [[nodiscard]] const rueda_tensor* pointer() const { return is_given ? &tensor : nullptr; }

    rueda_tensor tensor;
    bool is_given;
};

/// The splits as the C interface takes them. The pointer is null if there are none.
struct GivenSplits {
    explicit GivenSplits(const Splits& splits) : count(splits.has_value() ? splits->size() : 0) {
        // If the list is empty, the pointer must not be null, because null means equal splits.
        static constexpr std::int64_t kNone = 0;
        pointer = !splits.has_value() ? nullptr : splits->empty() ? &kNone : splits->data();
    }
    const std::int64_t* pointer;
    std::size_t count;
};

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

int RuntimeClient::job_rank_of(int root) const {
    const bool known = root >= 0 && root < size();
    return known ? set_->identity().ranks[static_cast<std::size_t>(root)] : root;
}

Status RuntimeClient::submit(Form form, const std::string& name, const core::Arguments& arguments,
                             const rueda_options& options, Completion& completion) {
    if (!name.empty()) {
        return form == Form::blocks ? runtime_->run(*set_, nullptr, name, arguments, options, completion)
                                    : runtime_->start(*set_, nullptr, name, arguments, options, completion);
    }
    Request request;
    RUEDA_RETURN_IF_FAILED(core::make_request(arguments, set_->membership(), options, request));
    return form == Form::blocks ? runtime_->run(*set_, nullptr, name, request, completion)
                                : runtime_->start(*set_, nullptr, name, request, completion);
}

Result<PendingPointer> RuntimeClient::call(Form form, const std::string& name, const core::Arguments& arguments,
                                           const rueda_options& options) {
    RUEDA_RETURN_IF_FAILED(core::check_name(name.c_str()));
    auto pending = std::make_unique<RuntimePending>(*runtime_, 1);
    Status status = submit(form, name, arguments, options, pending->completion());
    if (!status.is_ok() || form == Form::blocks) {
        // the runtime will not complete `pending`: the operation was refused, or the blocking call has ended it
        pending->take_as_ended();
    }
    RUEDA_RETURN_IF_FAILED(status);
    return PendingPointer(std::move(pending));
}

Result<PendingPointer> RuntimeClient::call_allreduce(Form form, const std::string& name, const Tensor& in,
                                                     const Tensor& out, const Reduce& reduce) {
    const rueda_tensor input = c_tensor(in);
    const rueda_tensor output = c_tensor(out);
    return call(form, name, {.operation = Operation::allreduce, .in = &input, .out = &output}, c_options(reduce));
}

Result<PendingPointer> RuntimeClient::call_broadcast(Form form, const std::string& name, const Tensor& tensor,
                                                     int root) {
    const rueda_tensor c = c_tensor(tensor);
    return call(form, name, {.operation = Operation::broadcast, .in = &c, .out = &c, .root = job_rank_of(root)},
                default_options());
}

Result<PendingPointer> RuntimeClient::call_allgather(Form form, const std::string& name, const Tensor& in,
                                                     const Tensor* out) {
    const rueda_tensor input = c_tensor(in);
    const Output output(out);
    return call(form, name, {.operation = Operation::allgather, .in = &input, .out = output.pointer()},
                default_options());
}

Result<PendingPointer> RuntimeClient::call_reducescatter(Form form, const std::string& name, const Tensor& in,
                                                         const Tensor* out, const Reduce& reduce) {
    const rueda_tensor input = c_tensor(in);
    const Output output(out);
    return call(form, name, {.operation = Operation::reducescatter, .in = &input, .out = output.pointer()},
                c_options(reduce));
}

Result<PendingPointer> RuntimeClient::call_alltoall(Form form, const std::string& name, const Tensor& in,
                                                    const Splits& splits, const Tensor* out) {
    const rueda_tensor input = c_tensor(in);
    const Output output(out);
    const GivenSplits given(splits);
    return call(form, name,
                {.operation = Operation::alltoall,
                 .in = &input,
                 .out = output.pointer(),
                 .splits = given.pointer,
                 .split_count = given.count},
                default_options());
}

Result<PendingPointer> RuntimeClient::call_gather(Form form, const std::string& name, const Tensor& in,
                                                  const Tensor* out, int root) {
    const rueda_tensor input = c_tensor(in);
    const Output output(out);
    return call(form, name,
                {.operation = Operation::gather, .in = &input, .out = output.pointer(), .root = job_rank_of(root)},
                default_options());
}

Result<PendingPointer> RuntimeClient::call_scatter(Form form, const std::string& name, const Tensor& in,
                                                   const Splits& splits, const Tensor* out, int root) {
    const rueda_tensor input = c_tensor(in);
    const Output output(out);
    const GivenSplits given(splits);
    return call(form, name,
                {.operation = Operation::scatter,
                 .in = &input,
                 .out = output.pointer(),
                 .root = job_rank_of(root),
                 .splits = given.pointer,
                 .split_count = given.count},
                default_options());
}

Result<PendingPointer> RuntimeClient::call_reduce(Form form, const std::string& name, const Tensor& in,
                                                  const Tensor& out, int root, const Reduce& reduce) {
    const rueda_tensor input = c_tensor(in);
    const Output output(rank() == root ? &out : nullptr);
    return call(form, name,
                {.operation = Operation::reduce, .in = &input, .out = output.pointer(), .root = job_rank_of(root)},
                c_options(reduce));
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
        pending->take_as_ended();
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

core::MessageRequest RuntimeClient::message(bool sends, const Tensor& tensor, int peer, std::int32_t tag) const {
    core::MessageRequest request;
    request.sends = sends;
    request.peer = job_rank_of(peer);
    request.tag = tag;
    request.set = shared_identity();
    request.dtype = tensor.dtype;
    request.bytes = tensor.bytes();
    request.memory = static_cast<std::byte*>(tensor.data);
    return request;
}

Result<PendingPointer> RuntimeClient::start_message(core::MessageRequest&& request) {
    auto pending = std::make_unique<RuntimePending>(*runtime_, 1);
    if (Status status = runtime_->start(std::move(request), pending->completion()); !status.is_ok()) {
        pending->take_as_ended();
        return status;
    }
    return PendingPointer(std::move(pending));
}

Status RuntimeClient::send(const Tensor& tensor, int peer, std::int32_t tag) {
    core::Completion completion;
    return runtime_->run(message(true, tensor, peer, tag), completion);
}

Status RuntimeClient::receive(const Tensor& tensor, int peer, std::int32_t tag) {
    core::Completion completion;
    return runtime_->run(message(false, tensor, peer, tag), completion);
}

Result<PendingPointer> RuntimeClient::start_send(const Tensor& tensor, int peer, std::int32_t tag) {
    return start_message(message(true, tensor, peer, tag));
}

Result<PendingPointer> RuntimeClient::start_receive(const Tensor& tensor, int peer, std::int32_t tag) {
    return start_message(message(false, tensor, peer, tag));
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
    return runtime_->run(*set_, nullptr, "", request, completion);
}

Result<void*> RuntimeClient::allocate(std::size_t bytes) { return runtime_->allocate(bytes); }
Status RuntimeClient::deallocate(void* memory) { return runtime_->deallocate(memory); }

Status RuntimeClient::shutdown() {
    // The shutdown may report an earlier failure. Even then, it ends this rank's part of the job.
    static_cast<void>(runtime_->shutdown());
    return {};
}

}  // namespace rueda::tests
