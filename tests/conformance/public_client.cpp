// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/conformance/public_client.hpp"

#include <type_traits>

#include "rueda/rueda.hpp"

namespace rueda::tests {
namespace {

template <class F>
Status status_of(F&& call) {
    try {
        call();
        return {};
    } catch (const Error& error) {
        return {error.code(), error.what()};
    }
}

class PublicPending : public Pending {
public:
    explicit PublicPending(Handle handle) : handle_(std::move(handle)) {}
    ~PublicPending() override {
        if (!ready()) {
            rueda_shutdown();
        }
    }
    Status wait(double timeout_seconds) override {
        return status_of([&] {
            if (handle_.empty()) {
                return;
            }
            if (timeout_seconds < 0) {
                handle_.wait();
            } else {
                handle_.wait_for(std::chrono::duration<double>(timeout_seconds));
            }
        });
    }
    bool ready() override { return handle_.empty() || handle_.ready(); }
    Tensor output(std::size_t index) override {
        const TensorView view = handle_.output(index);
        return {view.data(), view.dtype(), {view.shape().extents().begin(), view.shape().extents().end()}};
    }
    std::vector<std::int64_t> received_splits() override {
        const auto splits = handle_.received_splits();
        return {splits.begin(), splits.end()};
    }

private:
    Handle handle_;  // empty if a blocking call returned no handle; in this case the operation has ended
};

/// A blocking call that writes into the caller's memory returns no handle.
template <class Block, class Start>
Result<PendingPointer> called(Form form, Block&& block, Start&& start) {
    Handle handle;
    RUEDA_RETURN_IF_FAILED(status_of([&] {
        if (form == Form::starts) {
            handle = start();
        } else if constexpr (std::is_void_v<decltype(block())>) {
            block();
        } else {
            handle = block();
        }
    }));
    return PendingPointer(std::make_unique<PublicPending>(std::move(handle)));
}

template <class Start>
Result<PendingPointer> started(Start&& start) {
    return called(Form::starts, start, start);
}

TensorView view_of(const Tensor& tensor) { return {tensor.data, tensor.dtype, Shape(std::span(tensor.shape))}; }

std::vector<TensorView> views_of(const std::vector<Tensor>& tensors) {
    std::vector<TensorView> views;
    for (const Tensor& tensor : tensors) {
        views.push_back(view_of(tensor));
    }
    return views;
}

}  // namespace

PublicClient::PublicClient(ProcessSet set) : set_(set), ranks_(set.ranks()), rank_(set.rank()) {}

AllreduceOptions PublicClient::options_of(const Reduce& reduce) const {
    return {.op = reduce.op,
            .prescale = reduce.prescale,
            .postscale = reduce.postscale,
            .process_set = set_,
            .compression = reduce.compression};
}

Result<PendingPointer> PublicClient::call_allreduce(Form form, const std::string& name, const Tensor& in,
                                                    const Tensor& out, const Reduce& reduce) {
    return called(
        form, [&] { rueda::allreduce(name, view_of(in), view_of(out), options_of(reduce)); },
        [&] { return allreduce_async(name, view_of(in), view_of(out), options_of(reduce)); });
}

Result<PendingPointer> PublicClient::call_broadcast(Form form, const std::string& name, const Tensor& tensor,
                                                    int root) {
    return called(
        form, [&] { rueda::broadcast(name, view_of(tensor), job_rank_of(root), options()); },
        [&] { return broadcast_async(name, view_of(tensor), job_rank_of(root), options()); });
}

Result<PendingPointer> PublicClient::call_allgather(Form form, const std::string& name, const Tensor& in,
                                                    const Tensor* out) {
    if (out == nullptr) {
        return called(
            form, [&] { return rueda::allgather(name, view_of(in), options()); },
            [&] { return allgather_async(name, view_of(in), options()); });
    }
    return called(
        form, [&] { allgather_into(name, view_of(in), view_of(*out), options()); },
        [&] { return allgather_into_async(name, view_of(in), view_of(*out), options()); });
}

Result<PendingPointer> PublicClient::call_reducescatter(Form form, const std::string& name, const Tensor& in,
                                                        const Tensor* out, const Reduce& reduce) {
    if (out == nullptr) {
        return called(
            form, [&] { return rueda::reducescatter(name, view_of(in), options_of(reduce)); },
            [&] { return reducescatter_async(name, view_of(in), options_of(reduce)); });
    }
    return called(
        form, [&] { rueda::reducescatter(name, view_of(in), view_of(*out), options_of(reduce)); },
        [&] { return reducescatter_async(name, view_of(in), view_of(*out), options_of(reduce)); });
}

Result<PendingPointer> PublicClient::call_alltoall(Form form, const std::string& name, const Tensor& in,
                                                   const Splits& splits, const Tensor* out) {
    const auto call = [&](const auto&... given) {  // the splits, or nothing
        if (out == nullptr) {
            return called(
                form, [&] { return rueda::alltoall(name, view_of(in), given..., options()); },
                [&] { return alltoall_async(name, view_of(in), given..., options()); });
        }
        return called(
            form, [&] { alltoall_into(name, view_of(in), view_of(*out), given..., options()); },
            [&] { return alltoall_into_async(name, view_of(in), view_of(*out), given..., options()); });
    };
    return splits.has_value() ? call(*splits) : call();
}

Result<PendingPointer> PublicClient::call_gather(Form form, const std::string& name, const Tensor& in,
                                                 const Tensor* out, int root) {
    const int from = job_rank_of(root);
    if (out == nullptr) {
        return called(
            form, [&] { return rueda::gather(name, view_of(in), from, options()); },
            [&] { return gather_async(name, view_of(in), from, options()); });
    }
    return called(
        form, [&] { gather_into(name, view_of(in), view_of(*out), from, options()); },
        [&] { return gather_into_async(name, view_of(in), view_of(*out), from, options()); });
}

Result<PendingPointer> PublicClient::call_scatter(Form form, const std::string& name, const Tensor& in,
                                                  const Splits& splits, const Tensor* out, int root) {
    const int from = job_rank_of(root);
    const auto call = [&](const auto&... given) {  // the splits, or nothing
        if (out == nullptr) {
            return called(
                form, [&] { return rueda::scatter(name, view_of(in), given..., from, options()); },
                [&] { return scatter_async(name, view_of(in), given..., from, options()); });
        }
        return called(
            form, [&] { scatter_into(name, view_of(in), view_of(*out), given..., from, options()); },
            [&] { return scatter_into_async(name, view_of(in), view_of(*out), given..., from, options()); });
    };
    return splits.has_value() ? call(*splits) : call();
}

Result<PendingPointer> PublicClient::call_reduce(Form form, const std::string& name, const Tensor& in,
                                                 const Tensor& out, int root, const Reduce& reduce) {
    const int to = job_rank_of(root);
    return called(
        form, [&] { rueda::reduce(name, view_of(in), view_of(out), to, options_of(reduce)); },
        [&] { return reduce_async(name, view_of(in), view_of(out), to, options_of(reduce)); });
}

Result<PendingPointer> PublicClient::start_group(const std::string& name, const std::vector<Tensor>& tensors,
                                                 const Reduce& reduce) {
    return started([&] { return grouped_allreduce_async(name, views_of(tensors), options_of(reduce)); });
}

Result<PendingPointer> PublicClient::start_grouped_allgather(const std::string& name,
                                                             const std::vector<Tensor>& tensors) {
    return started([&] { return grouped_allgather_async(name, views_of(tensors), options()); });
}

Result<PendingPointer> PublicClient::start_grouped_reducescatter(const std::string& name,
                                                                 const std::vector<Tensor>& tensors,
                                                                 const Reduce& reduce) {
    return started([&] { return grouped_reducescatter_async(name, views_of(tensors), options_of(reduce)); });
}

Result<PendingPointer> PublicClient::start_send(const Tensor& tensor, int peer, std::int32_t tag) {
    return started([&] { return send_async(view_of(tensor), job_rank_of(peer), tag, options()); });
}

Result<PendingPointer> PublicClient::start_receive(const Tensor& tensor, int peer, std::int32_t tag) {
    return started([&] { return receive_async(view_of(tensor), job_rank_of(peer), tag, options()); });
}

Result<int> PublicClient::join(bool counted) {
    int last = -1;
    RUEDA_RETURN_IF_FAILED(status_of([&] { last = rueda::join(counted ? JoinAverage::all : JoinAverage::active); }));
    return last;
}

Status PublicClient::barrier() {
    return status_of([&] { rueda::barrier(options()); });
}

Result<void*> PublicClient::allocate(std::size_t bytes) {
    void* memory = nullptr;
    RUEDA_RETURN_IF_FAILED(status_of([&] { memory = rueda::allocate(bytes); }));
    return memory;
}

Status PublicClient::deallocate(void* memory) {
    return status_of([&] { rueda::deallocate(memory); });
}

Status PublicClient::shutdown() {
    return status_of([] { rueda::shutdown(); });
}

}  // namespace rueda::tests
