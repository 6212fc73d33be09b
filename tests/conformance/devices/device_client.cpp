// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/conformance/devices/device_client.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "collectives/rows.hpp"
#include "core/messages/operation.hpp"
#include "core/operations/groups.hpp"
#include "core/operations/requests.hpp"
#include "tests/support/gpu_stand_in/api.hpp"

namespace rueda::tests {
namespace {

using collectives::cuda::CudaApi;
using collectives::cuda::CudaContext;
using collectives::cuda::CudaResult;
using collectives::cuda::CudaStream;
using collectives::cuda::DeviceAddress;
using core::Request;

void check_call(CudaResult result, const char* call) {
    if (result != collectives::cuda::kCudaSuccess) {
        throw std::runtime_error(std::string(call) + " returned " + std::to_string(result));
    }
}

DeviceAddress device_address(const void* memory) { return reinterpret_cast<DeviceAddress>(memory); }

/// While this object lives, the context of the GPU is the thread's current context.
class Current {
public:
    Current(const CudaApi& cuda, CudaContext context) : cuda_(cuda) {
        check_call(cuda_.context_push(context), "cuCtxPushCurrent");
    }
    ~Current() {
        CudaContext popped = nullptr;
        static_cast<void>(cuda_.context_pop(&popped));
    }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

private:
    const CudaApi& cuda_;
};

/// Whether a tensor can be copied. Some scenarios pass tensors that Rueda must refuse; such tensors are not copied, and
/// keep their addresses.
bool is_sane(const Tensor& tensor) {
    constexpr std::size_t kMost = std::size_t{1} << 28;
    const auto dtype = static_cast<std::int32_t>(tensor.dtype);
    return dtype >= 0 && dtype < kDTypeCount && tensor.data != nullptr &&
           std::all_of(tensor.shape.begin(), tensor.shape.end(),
                       [](std::int64_t extent) { return extent >= 0 && extent <= static_cast<std::int64_t>(kMost); }) &&
           tensor.bytes() > 0 && tensor.bytes() <= kMost;
}

/// The GPU memory that holds copies of one operation's tensors. If tensors overlap in the CPU's memory, their copies
/// overlap by the same bytes.
class Stage {
public:
    Stage(const CudaApi& cuda, CudaContext context, CudaStream stream, std::span<const Tensor> tensors)
        : cuda_(cuda), context_(context), stream_(stream) {
        for (const Tensor& tensor : tensors) {
            if (is_sane(tensor)) {
                auto* const begin = static_cast<std::byte*>(tensor.data);
                parts_.push_back({begin, begin + tensor.bytes()});
            }
        }
        std::sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
        for (std::size_t i = 1; i < parts_.size();) {
            if (parts_[i].begin < parts_[i - 1].end) {
                parts_[i - 1].end = std::max(parts_[i - 1].end, parts_[i].end);
                parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(i));
            } else {
                ++i;
            }
        }
        const Current current(cuda_, context_);
        for (Part& part : parts_) {
            check_call(cuda_.memory_allocate(&part.memory, part.bytes()), "cuMemAlloc");
            check_call(cuda_.copy_async(part.memory, device_address(part.begin), part.bytes(), stream_),
                       "cuMemcpyAsync");
        }
    }
    ~Stage() {
        if (is_kept_) {
            return;
        }
        const Current current(cuda_, context_);
        static_cast<void>(cuda_.stream_synchronize(stream_));
        for (const Part& part : parts_) {
            static_cast<void>(cuda_.memory_free(part.memory));
        }
    }
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;

    /// Returns the tensor with its address on the GPU. The returned struct points to the shape of `tensor`.
    [[nodiscard]] rueda_tensor on_gpu(const Tensor& tensor) const {
        void* memory = tensor.data;
        for (const Part& part : parts_) {
            const auto* const at = static_cast<const std::byte*>(tensor.data);
            if (is_sane(tensor) && at >= part.begin && at < part.end) {
                memory = reinterpret_cast<void*>(part.memory + static_cast<DeviceAddress>(at - part.begin));
            }
        }
        return {memory, tensor.shape.data(), static_cast<std::int32_t>(tensor.shape.size()),
                static_cast<std::int32_t>(tensor.dtype)};
    }
    /// The memory is never freed. After an abort, no event says when the GPU has done its work.
    void keep_for_ever() { is_kept_ = true; }
    /// Copies everything back. The host must have waited for the operation.
    void fetch() const {
        const Current current(cuda_, context_);
        for (const Part& part : parts_) {
            check_call(cuda_.copy_async(device_address(part.begin), part.memory, part.bytes(), stream_),
                       "cuMemcpyAsync");
        }
        check_call(cuda_.stream_synchronize(stream_), "cuStreamSynchronize");
    }

private:
    struct Part {
        std::byte* begin = nullptr;
        std::byte* end = nullptr;
        DeviceAddress memory = 0;
        [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(end - begin); }
    };
    const CudaApi& cuda_;
    CudaContext context_;
    CudaStream stream_;
    std::vector<Part> parts_;
    bool is_kept_ = false;
};

/// Whether the job ended before the operation with this status. The GPU may then still work on the operation. If
/// the operation failed for another reason, such as a mismatch, its status does not name the end of the job.
bool has_ended_job(const core::Runtime& runtime, const Status& status) { return !status.is_ok() && runtime.aborted(); }

class DevicePending : public Pending {
public:
    /// If `stream` is given, wait() lets this stream wait, and not the host. `stream` must be the stream of `stage`.
    DevicePending(core::Runtime& runtime, std::unique_ptr<Stage> stage, std::uint32_t members,
                  std::optional<rueda_device_stream> stream)
        : runtime_(runtime), stage_(std::move(stage)), completion_(members), stream_(stream) {}
    ~DevicePending() override {
        if (!completion_.done()) {
            // The shutdown ends all pending operations, so no thread uses the completion afterwards.
            static_cast<void>(runtime_.shutdown());
        }
        if (!completion_.done() || has_ended_job(runtime_, completion_.status())) {
            stage_->keep_for_ever();
        }
    }
    Status wait(double timeout_seconds) override {
        if (stream_) {
            const Status launched = runtime_.wait_on_stream(completion_, *stream_, timeout_seconds);
            // If wait_on_stream() succeeded, the GPU may still work on the operation. Only the stream's wait orders the
            // copies of fetch() after the operation.
            fetch(/*is_ordered=*/launched.is_ok());
            RUEDA_RETURN_IF_FAILED(launched);
        }
        Status status = runtime_.wait(completion_, timeout_seconds);
        fetch();
        return status;
    }
    bool ready() override {
        const bool is_ready = runtime_.poll(completion_);
        fetch();
        return is_ready;
    }
    Tensor output(std::size_t index) override { return outputs_.at(index); }
    /// `outputs` are tensors that this client has made. They lie in memory that `kept` owns.
    void keep(std::vector<Tensor> outputs, std::shared_ptr<void> kept) {
        outputs_ = std::move(outputs);
        kept_ = std::move(kept);
    }
    std::vector<std::int64_t> received_splits() override { return completion_.received_splits; }
    /// See RuntimePending.
    void take_as_ended() {
        while (!completion_.done()) {
            completion_.complete_one({});
        }
    }
    /// Copies the tensors back if the operation has ended and they were not copied yet. Tensors are copied even if a
    /// group failed, because some of its members may have succeeded. If `is_ordered`, the stream waits for the
    /// operation, so the tensors can be copied before the operation has ended.
    void fetch(bool is_ordered = false) {
        const std::lock_guard lock(mutex_);
        const bool has_result = completion_.done() && !has_ended_job(runtime_, completion_.status());
        if ((is_ordered || has_result) && !std::exchange(is_fetched_, true)) {
            stage_->fetch();
        }
    }
    void keep_memory_for_ever() { stage_->keep_for_ever(); }
    [[nodiscard]] core::Completion& completion() { return completion_; }
    [[nodiscard]] const Stage& stage() const { return *stage_; }

private:
    core::Runtime& runtime_;
    std::shared_ptr<void> kept_;  // declared before stage_, so that it is freed later: stage_ copies into this memory
    std::vector<Tensor> outputs_;
    std::unique_ptr<Stage> stage_;
    core::Completion completion_;
    std::optional<rueda_device_stream> stream_;
    std::mutex mutex_;  // several threads may wait for one operation
    bool is_fetched_ = false;
};

/// The splits in the form of the C interface, in which a null pointer means equal splits. The pointer for an empty list
/// is therefore not null.
struct SplitsOnGpu {
    explicit SplitsOnGpu(const Splits& splits) : count(splits ? splits->size() : 0) {
        static constexpr std::int64_t kNone = 0;
        pointer = !splits ? nullptr : splits->empty() ? &kNone : splits->data();
    }
    const std::int64_t* pointer;
    std::size_t count;
};

}  // namespace

std::vector<Scenario> scenarios_on_gpus() {
    constexpr std::array kOtherResults{
        // On a GPU, the sum of integers wraps around before it is divided.
        std::string_view("allreduce: averages of integers"),
        // On a GPU, bool values other than 0 and 1 are not normalised to 1.
        std::string_view("allreduce: bool"),
    };
    std::vector<Scenario> all = all_scenarios();
    std::erase_if(all, [&kOtherResults](const Scenario& scenario) {
        return std::find(kOtherResults.begin(), kOtherResults.end(), scenario.name) != kOtherResults.end();
    });
    return all;
}

DeviceClient::DeviceClient(RuntimeClient& host, int device, std::uint64_t seed)
    : host_(host), cuda_(gpu::open_cuda()), random_(seed + static_cast<std::uint64_t>(device)) {
    static_cast<void>(gpu::open_nccl());  // loads the stand-in for NCCL now, so that the plugin finds the stand-in
    auto set = host_.runtime().process_sets().find(host_.identity().id);
    set_ = host_.identity().is_world() ? host_.runtime().shared_world() : std::move(set).value();
    check_call(cuda_.init(0), "cuInit");
    collectives::cuda::CudaDevice handle = 0;
    check_call(cuda_.device_get(&handle, device), "cuDeviceGet");
    check_call(cuda_.primary_context_retain(&context_, handle), "cuDevicePrimaryCtxRetain");
    const Current current(cuda_, context_);
    check_call(cuda_.stream_create_with_priority(&stream_, collectives::cuda::kStreamNonBlocking, 0),
               "cuStreamCreateWithPriority");
    rank_stream_ = {RUEDA_CUDA, device, stream_};
}

DeviceClient::~DeviceClient() = default;

bool DeviceClient::allocates_outputs() const { return false; }

std::optional<rueda_device_stream> DeviceClient::draw_stream() {
    const std::lock_guard lock(random_mutex_);
    if (random_() % 2 == 0) {
        return std::nullopt;
    }
    ++stream_waits_;
    return rank_stream_;
}

rueda_options DeviceClient::options(const Reduce& reduce) const {
    rueda_options options = RUEDA_OPTIONS_INIT;
    options.prescale = reduce.prescale;
    options.postscale = reduce.postscale;
    options.reduce_op = static_cast<std::int32_t>(reduce.op);
    options.compression = static_cast<std::int32_t>(reduce.compression);
    options.device = &rank_stream_;
    return options;
}

int DeviceClient::job_rank_of(int rank) const {
    const bool is_known = rank >= 0 && rank < size();
    return is_known ? set_->identity().ranks[static_cast<std::size_t>(rank)] : rank;
}

template <class Make>
Result<PendingPointer> DeviceClient::call(Form form, const std::string& name, std::vector<Tensor> tensors,
                                          Make&& make) {
    on_device_.fetch_add(1, std::memory_order_relaxed);
    core::Runtime& runtime = host_.runtime();
    auto pending = std::make_unique<DevicePending>(runtime, std::make_unique<Stage>(cuda_, context_, stream_, tensors),
                                                   1, form == Form::blocks ? std::nullopt : draw_stream());
    Request request;
    Status status = make(pending->stage(), request);
    if (status.is_ok()) {
        status = core::check_name(name.c_str());
    }
    if (status.is_ok() && !request.is_refused) {
        auto use = runtime.use_device(*set_, rank_stream_);
        status = use.status();
        request.device = status.is_ok() ? std::move(use).value() : nullptr;
    }
    if (status.is_ok()) {
        status = form == Form::blocks ? runtime.run(*set_, nullptr, name, request, pending->completion())
                                      : runtime.start(*set_, nullptr, name, request, pending->completion());
    }
    if (has_ended_job(runtime, status)) {
        pending->keep_memory_for_ever();
    }
    if (!status.is_ok() || form == Form::blocks) {
        pending->take_as_ended();
    }
    RUEDA_RETURN_IF_FAILED(status);
    pending->fetch();
    return PendingPointer(std::move(pending));
}

Result<PendingPointer> DeviceClient::call_allreduce(Form form, const std::string& name, const Tensor& in,
                                                    const Tensor& out, const Reduce& reduce) {
    return call(form, name, {in, out}, [&](const Stage& stage, Request& request) {
        return core::make_allreduce(stage.on_gpu(in), stage.on_gpu(out), options(reduce), request);
    });
}

Result<PendingPointer> DeviceClient::call_broadcast(Form form, const std::string& name, const Tensor& tensor,
                                                    int root) {
    return call(form, name, {tensor}, [&](const Stage& stage, Request& request) {
        const rueda_tensor on_gpu = stage.on_gpu(tensor);
        return core::make_broadcast(on_gpu, on_gpu, job_rank_of(root), set_->identity().ranks, rank(), options(),
                                    request);
    });
}

Result<PendingPointer> DeviceClient::call_allgather(Form form, const std::string& name, const Tensor& in,
                                                    const Tensor* out) {
    if (out == nullptr) {
        return host_.call_allgather(form, name, in, out);
    }
    return call(form, name, {in, *out}, [&](const Stage& stage, Request& request) {
        const rueda_tensor output = stage.on_gpu(*out);
        return core::make_allgather(stage.on_gpu(in), &output, options(), request);
    });
}

Result<PendingPointer> DeviceClient::call_reducescatter(Form form, const std::string& name, const Tensor& in,
                                                        const Tensor* out, const Reduce& reduce) {
    if (out == nullptr) {
        return host_.call_reducescatter(form, name, in, out, reduce);
    }
    return call(form, name, {in, *out}, [&](const Stage& stage, Request& request) {
        const rueda_tensor output = stage.on_gpu(*out);
        return core::make_reducescatter(stage.on_gpu(in), &output, rank(), size(), options(reduce), request);
    });
}

Result<PendingPointer> DeviceClient::call_alltoall(Form form, const std::string& name, const Tensor& in,
                                                   const Splits& splits, const Tensor* out) {
    if (out == nullptr) {
        return host_.call_alltoall(form, name, in, splits, out);
    }
    return call(form, name, {in, *out}, [&](const Stage& stage, Request& request) {
        const rueda_tensor output = stage.on_gpu(*out);
        const SplitsOnGpu given(splits);
        return core::make_alltoall(stage.on_gpu(in), given.pointer, given.count, &output, size(), options(), request);
    });
}

Result<PendingPointer> DeviceClient::call_gather(Form form, const std::string& name, const Tensor& in,
                                                 const Tensor* out, int root) {
    if (out == nullptr) {
        return host_.call_gather(form, name, in, out, root);
    }
    return call(form, name, {in, *out}, [&](const Stage& stage, Request& request) {
        const rueda_tensor output = stage.on_gpu(*out);
        return core::make_gather(stage.on_gpu(in), &output, job_rank_of(root), set_->identity().ranks, rank(),
                                 options(), request);
    });
}

Result<PendingPointer> DeviceClient::call_scatter(Form form, const std::string& name, const Tensor& in,
                                                  const Splits& splits, const Tensor* out, int root) {
    if (out == nullptr) {
        return host_.call_scatter(form, name, in, splits, out, root);
    }
    return call(form, name, {in, *out}, [&](const Stage& stage, Request& request) {
        const rueda_tensor output = stage.on_gpu(*out);
        const SplitsOnGpu given(splits);
        return core::make_scatter(stage.on_gpu(in), given.pointer, given.count, &output, job_rank_of(root),
                                  set_->identity().ranks, rank(), options(), request);
    });
}

Result<PendingPointer> DeviceClient::call_reduce(Form form, const std::string& name, const Tensor& in,
                                                 const Tensor& out, int root, const Reduce& reduce) {
    return call(form, name, {in, out}, [&](const Stage& stage, Request& request) {
        const rueda_tensor output = stage.on_gpu(out);
        return core::make_reduce(stage.on_gpu(in), rank() == root ? &output : nullptr, job_rank_of(root),
                                 set_->identity().ranks, rank(), options(reduce), request);
    });
}

template <class Make>
Result<PendingPointer> DeviceClient::start_members(const std::string& name, std::size_t count,
                                                   std::vector<Tensor> tensors, std::vector<Tensor> outputs,
                                                   std::shared_ptr<void> kept, Make&& make) {
    on_device_.fetch_add(1, std::memory_order_relaxed);
    core::Runtime& runtime = host_.runtime();
    auto pending = std::make_unique<DevicePending>(runtime, std::make_unique<Stage>(cuda_, context_, stream_, tensors),
                                                   static_cast<std::uint32_t>(count), draw_stream());
    pending->keep(std::move(outputs), std::move(kept));
    pending->completion().make_room(count);
    auto use = runtime.use_device(*set_, rank_stream_);
    Status status = use.status();
    std::vector<std::string> names;
    std::vector<Request> requests(count);
    for (std::size_t i = 0; i < count && status.is_ok(); ++i) {
        names.push_back(core::name_of_member(name, i, count));
        requests[i].member = static_cast<std::uint32_t>(i);
        status = make(pending->stage(), i, requests[i]);
        requests[i].device = requests[i].is_refused ? nullptr : use.value();
    }
    if (status.is_ok()) {
        status = runtime.start_group(*set_, name, names, requests, pending->completion());
    }
    if (!status.is_ok()) {
        if (has_ended_job(runtime, status)) {
            pending->keep_memory_for_ever();
        }
        pending->take_as_ended();
        return status;
    }
    return PendingPointer(std::move(pending));
}

Result<PendingPointer> DeviceClient::start_group(const std::string& name, const std::vector<Tensor>& tensors,
                                                 const Reduce& reduce) {
    if (tensors.empty()) {
        return host_.start_group(name, tensors, reduce);
    }
    return start_members(name, tensors.size(), tensors, {}, nullptr,
                         [&](const Stage& stage, std::size_t i, Request& request) {
                             const rueda_tensor tensor = stage.on_gpu(tensors[i]);
                             return core::make_allreduce(tensor, tensor, options(reduce), request);
                         });
}

/// The scenarios let Rueda allocate the outputs. Rueda allocates no outputs on a GPU, so this client allocates them.
Result<PendingPointer> DeviceClient::start_grouped_reducescatter(const std::string& name,
                                                                 const std::vector<Tensor>& tensors,
                                                                 const Reduce& reduce) {
    if (tensors.empty() || !std::all_of(tensors.begin(), tensors.end(), is_sane)) {
        return host_.start_grouped_reducescatter(name, tensors, reduce);
    }
    std::vector<Tensor> outputs;
    auto memory = std::make_shared<std::vector<std::vector<std::byte>>>();
    for (const Tensor& tensor : tensors) {
        Tensor output = tensor;
        if (!tensor.shape.empty()) {
            output.shape[0] = collectives::rows_of_member(tensor.shape[0], static_cast<std::uint32_t>(rank()),
                                                          static_cast<std::uint32_t>(size()))
                                  .count;
        }
        memory->emplace_back(output.bytes());
        output.data = output.bytes() > 0 ? memory->back().data() : nullptr;
        outputs.push_back(output);
    }
    std::vector<Tensor> all = tensors;
    all.insert(all.end(), outputs.begin(), outputs.end());
    return start_members(name, tensors.size(), std::move(all), outputs, std::move(memory),
                         [&](const Stage& stage, std::size_t i, Request& request) {
                             const rueda_tensor output = stage.on_gpu(outputs[i]);
                             return core::make_reducescatter(stage.on_gpu(tensors[i]), &output, rank(), size(),
                                                             options(reduce), request);
                         });
}

Result<PendingPointer> DeviceClient::start_message(bool sends, const Tensor& tensor, int peer, std::int32_t tag) {
    if (!is_sane(tensor)) {  // an empty message needs no GPU
        return sends ? host_.start_send(tensor, peer, tag) : host_.start_receive(tensor, peer, tag);
    }
    on_device_.fetch_add(1, std::memory_order_relaxed);
    core::Runtime& runtime = host_.runtime();
    auto pending = std::make_unique<DevicePending>(
        runtime, std::make_unique<Stage>(cuda_, context_, stream_, std::span(&tensor, 1)), 1, draw_stream());
    core::MessageRequest request;
    request.sends = sends;
    request.peer = job_rank_of(peer);
    request.tag = tag;
    request.set = {set_, &set_->identity()};
    request.dtype = tensor.dtype;
    request.bytes = tensor.bytes();
    request.memory = static_cast<std::byte*>(pending->stage().on_gpu(tensor).data);
    Status status = runtime.use_device(rank_stream_, request);
    if (status.is_ok()) {
        if (!sends) {
            pending->completion().expect_launches(1);
        }
        status = runtime.start(std::move(request), pending->completion());
    }
    if (!status.is_ok()) {
        if (has_ended_job(runtime, status)) {
            pending->keep_memory_for_ever();
        }
        pending->take_as_ended();
        return status;
    }
    return PendingPointer(std::move(pending));
}

}  // namespace rueda::tests
