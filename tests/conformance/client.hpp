// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "rueda/types.hpp"

namespace rueda::tests {

struct Tensor {
    void* data = nullptr;
    DType dtype = DType::float32;
    std::vector<std::int64_t> shape;

    [[nodiscard]] std::size_t elements() const {
        std::size_t product = 1;
        for (const std::int64_t extent : shape) {
            product *= static_cast<std::size_t>(extent);
        }
        return product;
    }
    [[nodiscard]] std::size_t bytes() const { return elements() * size_of(dtype); }
};

struct Reduce {
    ReduceOp op = ReduceOp::sum;
    double prescale = 1.0;
    double postscale = 1.0;
    Compression compression = Compression::none;  ///< used only by allreduce
};

/// In an alltoall, the number of rows that go to each rank. Without a value, every rank gets the same number of rows.
using Splits = std::optional<std::vector<std::int64_t>>;

/// An operation in progress. If a test has failed, the destructor may find the operation pending; in this case, this
/// rank leaves the job.
class Pending {
public:
    Pending() = default;
    virtual ~Pending() = default;
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    /// A negative timeout waits without a limit.
    virtual Status wait(double timeout_seconds) = 0;
    Status wait() { return wait(-1); }
    virtual bool ready() = 0;
    /// The output that Rueda allocated for a finished operation. The pointer is valid as long as this object exists.
    Tensor output() { return output(0); }
    /// The output of the group's member with this index.
    virtual Tensor output(std::size_t index) = 0;
    /// The number of rows that each rank sent to this rank in a finished alltoall.
    virtual std::vector<std::int64_t> received_splits() = 0;
};
using PendingPointer = std::unique_ptr<Pending>;

/// Whether a call returns at once, or blocks until its operation has ended. A blocking call is not the same as a start
/// and a wait: only the blocking call closes a batch at once.
enum class Form { starts, blocks };

/// One rank as the scenarios of the conformance suite see it: either a Runtime of this process, or the public
/// interface. Any thread may call its functions.
class Client {
public:
    Client() = default;
    virtual ~Client() = default;
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    [[nodiscard]] virtual int rank() const = 0;
    [[nodiscard]] virtual int size() const = 0;
    /// The number of this set's ranks on this rank's host.
    [[nodiscard]] virtual int local_size() const = 0;

    // The operations; `form` chooses between an asynchronous call and a blocking call. If `out` is null, Rueda
    // allocates the output. `root` is a rank of this client. In operations with a root, `out` is also null on ranks
    // that have no output.
    virtual Result<PendingPointer> call_allreduce(Form form, const std::string& name, const Tensor& in,
                                                  const Tensor& out, const Reduce& reduce) = 0;
    virtual Result<PendingPointer> call_broadcast(Form form, const std::string& name, const Tensor& tensor,
                                                  int root) = 0;
    virtual Result<PendingPointer> call_allgather(Form form, const std::string& name, const Tensor& in,
                                                  const Tensor* out) = 0;
    virtual Result<PendingPointer> call_reducescatter(Form form, const std::string& name, const Tensor& in,
                                                      const Tensor* out, const Reduce& reduce) = 0;
    virtual Result<PendingPointer> call_alltoall(Form form, const std::string& name, const Tensor& in,
                                                 const Splits& splits, const Tensor* out) = 0;
    virtual Result<PendingPointer> call_gather(Form form, const std::string& name, const Tensor& in, const Tensor* out,
                                               int root) = 0;
    virtual Result<PendingPointer> call_scatter(Form form, const std::string& name, const Tensor& in,
                                                const Splits& splits, const Tensor* out, int root) = 0;
    virtual Result<PendingPointer> call_reduce(Form form, const std::string& name, const Tensor& in, const Tensor& out,
                                               int root, const Reduce& reduce) = 0;

    /// Starts a group that reduces in place. Its members are named <name>_<i>of<count>.
    virtual Result<PendingPointer> start_group(const std::string& name, const std::vector<Tensor>& tensors,
                                               const Reduce& reduce) = 0;
    virtual Result<PendingPointer> start_grouped_allgather(const std::string& name,
                                                           const std::vector<Tensor>& tensors) = 0;
    virtual Result<PendingPointer> start_grouped_reducescatter(const std::string& name,
                                                               const std::vector<Tensor>& tensors,
                                                               const Reduce& reduce) = 0;
    // `peer` is a rank of this client.
    virtual Result<PendingPointer> start_send(const Tensor& tensor, int peer, std::int32_t tag) = 0;
    virtual Result<PendingPointer> start_receive(const Tensor& tensor, int peer, std::int32_t tag) = 0;

    Result<PendingPointer> start_allreduce(const std::string& name, const Tensor& in, const Tensor& out,
                                           const Reduce& reduce) {
        return call_allreduce(Form::starts, name, in, out, reduce);
    }
    Result<PendingPointer> start_broadcast(const std::string& name, const Tensor& tensor, int root) {
        return call_broadcast(Form::starts, name, tensor, root);
    }
    Result<PendingPointer> start_allgather(const std::string& name, const Tensor& in, const Tensor* out = nullptr) {
        return call_allgather(Form::starts, name, in, out);
    }
    Result<PendingPointer> start_reducescatter(const std::string& name, const Tensor& in, const Tensor* out,
                                               const Reduce& reduce) {
        return call_reducescatter(Form::starts, name, in, out, reduce);
    }
    Result<PendingPointer> start_alltoall(const std::string& name, const Tensor& in, const Splits& splits,
                                          const Tensor* out = nullptr) {
        return call_alltoall(Form::starts, name, in, splits, out);
    }
    Result<PendingPointer> start_gather(const std::string& name, const Tensor& in, const Tensor* out, int root) {
        return call_gather(Form::starts, name, in, out, root);
    }
    Result<PendingPointer> start_scatter(const std::string& name, const Tensor& in, const Splits& splits,
                                         const Tensor* out, int root) {
        return call_scatter(Form::starts, name, in, splits, out, root);
    }
    Result<PendingPointer> start_reduce(const std::string& name, const Tensor& in, const Tensor& out, int root,
                                        const Reduce& reduce) {
        return call_reduce(Form::starts, name, in, out, root, reduce);
    }

    Status allreduce(const std::string& name, const Tensor& in, const Tensor& out, const Reduce& reduce) {
        return call_allreduce(Form::blocks, name, in, out, reduce).status();
    }
    Status broadcast(const std::string& name, const Tensor& tensor, int root) {
        return call_broadcast(Form::blocks, name, tensor, root).status();
    }
    Status reducescatter(const std::string& name, const Tensor& in, const Tensor& out, const Reduce& reduce) {
        return call_reducescatter(Form::blocks, name, in, &out, reduce).status();
    }
    Status reduce(const std::string& name, const Tensor& in, const Tensor& out, int root, const Reduce& reduce) {
        return call_reduce(Form::blocks, name, in, out, root, reduce).status();
    }
    // The returned operation has ended. If `out` is null, the operation holds the output.
    Result<PendingPointer> allgather(const std::string& name, const Tensor& in, const Tensor* out) {
        return call_allgather(Form::blocks, name, in, out);
    }
    Result<PendingPointer> alltoall(const std::string& name, const Tensor& in, const Splits& splits,
                                    const Tensor* out) {
        return call_alltoall(Form::blocks, name, in, splits, out);
    }
    Result<PendingPointer> gather(const std::string& name, const Tensor& in, const Tensor* out, int root) {
        return call_gather(Form::blocks, name, in, out, root);
    }
    Result<PendingPointer> scatter(const std::string& name, const Tensor& in, const Splits& splits, const Tensor* out,
                                   int root) {
        return call_scatter(Form::blocks, name, in, splits, out, root);
    }
    /// Whether Rueda can allocate outputs.
    [[nodiscard]] virtual bool allocates_outputs() const { return true; }
    /// Whether a result is rounded each time a rank's value is added, and not only at the end.
    [[nodiscard]] virtual bool rounds_every_step() const { return local_size() < size(); }
    virtual Status barrier() = 0;
    /// Joins (in the set of all ranks), and returns the rank that joined last. If `counted` is true, averages also
    /// count this rank in their divisor.
    virtual Result<int> join(bool counted) = 0;

    virtual Result<void*> allocate(std::size_t bytes) = 0;
    virtual Status deallocate(void* memory) = 0;
    virtual Status shutdown() = 0;
};

}  // namespace rueda::tests
