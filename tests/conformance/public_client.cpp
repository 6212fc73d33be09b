// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/conformance/public_client.hpp"

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
    Handle handle_;  // empty after a blocking call that returned no handle; its operation has ended
};

template <class F>
Result<PendingPointer> started(F&& start) {
    Handle handle;
    RUEDA_RETURN_IF_FAILED(status_of([&] { handle = start(); }));
    return PendingPointer(std::make_unique<PublicPending>(std::move(handle)));
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

PublicClient::PublicClient(ProcessSet set) : set_(set), rank_(set.rank()), size_(set.size()) {}

AllreduceOptions PublicClient::options_of(const Reduce& reduce) const {
    return {.op = reduce.op,
            .prescale = reduce.prescale,
            .postscale = reduce.postscale,
            .process_set = set_,
            .compression = reduce.compression};
}

Result<PendingPointer> PublicClient::start_allreduce(const std::string& name, const Tensor& in, const Tensor& out,
                                                     const Reduce& reduce) {
    return started([&] { return allreduce_async(name, view_of(in), view_of(out), options_of(reduce)); });
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

Result<PendingPointer> PublicClient::start_broadcast(const std::string& name, const Tensor& tensor, int root) {
    return started([&] { return broadcast_async(name, view_of(tensor), root, options()); });
}

Result<PendingPointer> PublicClient::start_allgather(const std::string& name, const Tensor& in, const Tensor* out) {
    return started([&] {
        return out != nullptr ? allgather_into_async(name, view_of(in), view_of(*out), options())
                              : allgather_async(name, view_of(in), options());
    });
}

Result<PendingPointer> PublicClient::allgather(const std::string& name, const Tensor& in, const Tensor* out) {
    return started([&] {
        if (out == nullptr) {
            return rueda::allgather(name, view_of(in), options());
        }
        allgather_into(name, view_of(in), view_of(*out), options());
        return Handle();
    });
}

Result<PendingPointer> PublicClient::start_reducescatter(const std::string& name, const Tensor& in, const Tensor* out,
                                                         const Reduce& reduce) {
    return started([&] {
        return out != nullptr ? reducescatter_async(name, view_of(in), view_of(*out), options_of(reduce))
                              : reducescatter_async(name, view_of(in), options_of(reduce));
    });
}

Result<PendingPointer> PublicClient::start_alltoall(const std::string& name, const Tensor& in, const Splits& splits,
                                                    const Tensor* out) {
    return started([&] {
        if (out != nullptr) {
            return splits.has_value() ? alltoall_into_async(name, view_of(in), view_of(*out), *splits, options())
                                      : alltoall_into_async(name, view_of(in), view_of(*out), options());
        }
        return splits.has_value() ? alltoall_async(name, view_of(in), *splits, options())
                                  : alltoall_async(name, view_of(in), options());
    });
}

Result<PendingPointer> PublicClient::alltoall(const std::string& name, const Tensor& in, const Splits& splits,
                                              const Tensor* out) {
    return started([&] {
        if (out == nullptr) {
            return splits.has_value() ? rueda::alltoall(name, view_of(in), *splits, options())
                                      : rueda::alltoall(name, view_of(in), options());
        }
        if (splits.has_value()) {
            alltoall_into(name, view_of(in), view_of(*out), *splits, options());
        } else {
            alltoall_into(name, view_of(in), view_of(*out), options());
        }
        return Handle();
    });
}

Status PublicClient::allreduce(const std::string& name, const Tensor& in, const Tensor& out, const Reduce& reduce) {
    return status_of([&] { rueda::allreduce(name, view_of(in), view_of(out), options_of(reduce)); });
}

Status PublicClient::broadcast(const std::string& name, const Tensor& tensor, int root) {
    return status_of([&] { rueda::broadcast(name, view_of(tensor), root, options()); });
}

Status PublicClient::reducescatter(const std::string& name, const Tensor& in, const Tensor& out, const Reduce& reduce) {
    return status_of([&] { rueda::reducescatter(name, view_of(in), view_of(out), options_of(reduce)); });
}

Result<PendingPointer> PublicClient::start_gather(const std::string& name, const Tensor& in, const Tensor* out,
                                                  int root) {
    return started([&] {
        return out != nullptr ? gather_into_async(name, view_of(in), view_of(*out), root, options())
                              : gather_async(name, view_of(in), root, options());
    });
}

Result<PendingPointer> PublicClient::gather(const std::string& name, const Tensor& in, const Tensor* out, int root) {
    return started([&] {
        if (out == nullptr) {
            return rueda::gather(name, view_of(in), root, options());
        }
        gather_into(name, view_of(in), view_of(*out), root, options());
        return Handle();
    });
}

Result<PendingPointer> PublicClient::start_scatter(const std::string& name, const Tensor& in, const Splits& splits,
                                                   const Tensor* out, int root) {
    return started([&] {
        if (out != nullptr) {
            return splits.has_value() ? scatter_into_async(name, view_of(in), view_of(*out), *splits, root, options())
                                      : scatter_into_async(name, view_of(in), view_of(*out), root, options());
        }
        return splits.has_value() ? scatter_async(name, view_of(in), *splits, root, options())
                                  : scatter_async(name, view_of(in), root, options());
    });
}

Result<PendingPointer> PublicClient::scatter(const std::string& name, const Tensor& in, const Splits& splits,
                                             const Tensor* out, int root) {
    return started([&] {
        if (out == nullptr) {
            return splits.has_value() ? rueda::scatter(name, view_of(in), *splits, root, options())
                                      : rueda::scatter(name, view_of(in), root, options());
        }
        if (splits.has_value()) {
            scatter_into(name, view_of(in), view_of(*out), *splits, root, options());
        } else {
            scatter_into(name, view_of(in), view_of(*out), root, options());
        }
        return Handle();
    });
}

Result<PendingPointer> PublicClient::start_reduce(const std::string& name, const Tensor& in, const Tensor& out,
                                                  int root, const Reduce& reduce) {
    return started([&] { return reduce_async(name, view_of(in), view_of(out), root, options_of(reduce)); });
}

Status PublicClient::reduce(const std::string& name, const Tensor& in, const Tensor& out, int root,
                            const Reduce& reduce) {
    return status_of([&] { rueda::reduce(name, view_of(in), view_of(out), root, options_of(reduce)); });
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
