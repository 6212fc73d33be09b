// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/core/devices/device_rank.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/operations/device_memory.hpp"
#include "core/operations/requests.hpp"
#include "core/runtime/devices.hpp"
#include "tests/support/gpu_kernels.hpp"
#include "tests/support/gpu_stand_in/api.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {

using collectives::cuda::DeviceAddress;

namespace {

DeviceAddress address_of(const void* memory) { return reinterpret_cast<DeviceAddress>(memory); }

}  // namespace

base::Config DeviceRank::settings() {
    base::Config config;
    config.resident_limit_bytes = 2 * base::kMiB;
    config.log_level = base::LogLevel::off;
    config.cuda_library = RUEDA_CUDA_PLUGIN_FILE;
    return config;
}

DeviceRank::DeviceRank(RankContext& context, int device, const base::Config& config)
    : context_(context), device_(device), cuda_(gpu::open_cuda()) {
    static_cast<void>(gpu::open_nccl());  // loads the stand-in for NCCL now, so that the plugin finds the stand-in
    check(cuda_.init(0), "cuInit");
    collectives::cuda::CudaDevice handle = 0;
    check(cuda_.device_get(&handle, device_), "cuDeviceGet");
    check(cuda_.primary_context_retain(&cuda_context_, handle), "cuDevicePrimaryCtxRetain");
    check(cuda_.context_push(cuda_context_), "cuCtxPushCurrent");
    check(cuda_.stream_create_with_priority(&stream_, collectives::cuda::kStreamNonBlocking, 0),
          "cuStreamCreateWithPriority");
    rank_stream_ = stream();
    auto plane = context.open_control_plane();
    plane.status().throw_if_failed();
    auto runtime = core::Runtime::create(config, std::move(plane).value());
    runtime.status().throw_if_failed();
    runtime_ = std::move(runtime).value();
}

DeviceRank::~DeviceRank() {
    runtime_.reset();
    static_cast<void>(cuda_.stream_synchronize(stream_));
    for (const DeviceAddress memory : memory_) {
        static_cast<void>(cuda_.memory_free(memory));
    }
    for (void* const memory : pinned_) {
        static_cast<void>(cuda_.host_free(memory));
    }
    collectives::cuda::CudaContext popped = nullptr;
    static_cast<void>(cuda_.context_pop(&popped));
}

rueda_options DeviceRank::options(ReduceOp op) const {
    rueda_options options = RUEDA_OPTIONS_INIT;
    options.reduce_op = static_cast<std::int32_t>(op);
    options.device = &rank_stream_;
    return options;
}

void DeviceRank::check(collectives::cuda::CudaResult result, const char* call) const {
    if (result != collectives::cuda::kCudaSuccess) {
        throw std::runtime_error(std::string(call) + " returned " + std::to_string(result));
    }
}

float* DeviceRank::allocate(std::size_t count) {
    DeviceAddress address = 0;
    check(cuda_.memory_allocate(&address, std::max<std::size_t>(count, 1) * sizeof(float)), "cuMemAlloc");
    memory_.push_back(address);
    return reinterpret_cast<float*>(address);
}

float* DeviceRank::allocate_with_rueda(std::span<const float> values) {
    const Result<void*> memory = runtime_->allocate_on_device(device_, values.size_bytes());
    memory.status().throw_if_failed();
    auto* const floats = static_cast<float*>(memory.value());
    write(floats, values);
    return floats;
}

void DeviceRank::deallocate(float* memory) {
    if (!core::opened_devices()->deallocate(memory)) {
        throw std::runtime_error("the memory is not Rueda's");
    }
}

float* DeviceRank::put(std::span<const float> values) {
    float* const memory = allocate(values.size());
    write(memory, values);
    return memory;
}

float* DeviceRank::put_for_ever(std::span<const float> values) {
    float* const memory = put(values);
    memory_.pop_back();
    return memory;
}

float* DeviceRank::garbage(std::size_t count) { return put(std::vector<float>(count, -12345.0F)); }

void DeviceRank::write(float* memory, std::span<const float> values) {
    if (values.empty()) {
        return;
    }
    void* pinned = nullptr;
    check(cuda_.host_allocate(&pinned, values.size_bytes(), 0), "cuMemHostAlloc");
    pinned_.push_back(pinned);
    std::memcpy(pinned, values.data(), values.size_bytes());
    check(cuda_.copy_async(address_of(memory), address_of(pinned), values.size_bytes(), stream_), "cuMemcpyAsync");
}

std::vector<float> DeviceRank::get(const float* memory, std::size_t count) {
    std::vector<float> values(count);
    if (count > 0) {
        check(cuda_.copy_async(address_of(values.data()), address_of(memory), count * sizeof(float), stream_),
              "cuMemcpyAsync");
    }
    synchronize();
    return values;
}

void DeviceRank::synchronize() { check(cuda_.stream_synchronize(stream_), "cuStreamSynchronize"); }

Status DeviceRank::start(const std::string& name, const rueda_options& options, core::Completion& completion,
                         const Make& make) {
    return start_in(runtime_->world(), name, options, completion, make);
}

Status DeviceRank::start_in(core::ProcessSet& set, const std::string& name, const rueda_options& options,
                            core::Completion& completion, const Make& make) {
    core::Request request;
    RUEDA_RETURN_IF_FAILED(make(set, options, request));
    if (options.device != nullptr && !request.is_refused) {
        auto use = runtime_->use_device(set, *options.device);
        RUEDA_RETURN_IF_FAILED(use.status());
        request.device = core::with_memory_of(std::move(use).value(), request);
    }
    return runtime_->start(set, nullptr, name, request, completion);
}

void DeviceRank::run(const std::string& name, const rueda_options& options, const Make& make) {
    core::Completion& completion = *completions_.emplace_back(std::make_unique<core::Completion>());
    start(name, options, completion, make).throw_if_failed();
    wait_on_stream(completion).throw_if_failed();
}

Status DeviceRank::start_allreduce(const std::string& name, float* data, std::int64_t count,
                                   core::Completion& completion, ReduceOp op) {
    const DeviceTensor tensor(data, count);
    return start(name, options(op), completion,
                 [&](core::ProcessSet& /*set*/, const rueda_options& o, core::Request& request) {
                     return core::make_allreduce(tensor.c(), tensor.c(), o, request);
                 });
}

void DeviceRank::allreduce(const std::string& name, float* data, std::int64_t count, ReduceOp op) {
    core::Completion& completion = *completions_.emplace_back(std::make_unique<core::Completion>());
    start_allreduce(name, data, count, completion, op).throw_if_failed();
    wait_on_stream(completion).throw_if_failed();
}

Status DeviceRank::allreduce_on_cpu(const std::string& name, std::span<float> values) {
    const DeviceTensor tensor(values.data(), static_cast<std::int64_t>(values.size()));
    rueda_options options = RUEDA_OPTIONS_INIT;
    options.reduce_op = RUEDA_SUM;
    core::Completion completion;
    return runtime_->run(runtime_->world(), nullptr, name,
                         {.operation = collectives::Operation::allreduce, .in = &tensor.c(), .out = &tensor.c()},
                         options, completion);
}

void DeviceRank::connect_and_hold(int device, float* data) {
    allreduce("x", data, 1);
    synchronize();
    meet("connected");
    if (rank() == 0) {
        gpu::hold_device(device);
    }
    meet("held");
}

void DeviceRank::launch_while_held(int device, float* data, core::Completion& completion) {
    connect_and_hold(device, data);
    start_allreduce("x", data, 1, completion).throw_if_failed();
    wait_on_stream(completion).throw_if_failed();
}

void DeviceRank::meet(const std::string& phase) {
    context_.phase(phase);
    for (int rank = 0; rank < size(); ++rank) {
        context_.wait_for_phase(rank, phase);
    }
}

namespace {

/// Returns the seed in the variable GPU_STAND_IN_SEED, or 1 if it is not set, and prints it.
std::uint64_t seed_of_devices() {
    const char* const text = std::getenv("GPU_STAND_IN_SEED");  // NOLINT(concurrency-mt-unsafe): no test sets variables
    const std::uint64_t seed = text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
    std::printf("GPU_STAND_IN_SEED=%llu\n", static_cast<unsigned long long>(seed));
    return seed;
}

}  // namespace

void begin_devices() {
    // The plugin keeps its streams until the process ends. So the stand-in can be reset only before the first test.
    static const bool once = (gpu::reset(seed_of_devices(), 8), gpu::register_kernels(), true);
    static_cast<void>(once);
    gpu::clear_violations();
}

namespace {

void run_with(int ranks, const std::function<int(int rank)>& device_of, const std::function<void(DeviceRank&)>& body,
              const base::Config& config, const std::string& hosts = {}) {
    begin_devices();
    const RanksResult result = run_ranks(ranks, [&](RankContext& context) {
        base::Config own = config;
        if (!hosts.empty()) {
            own.hostname = std::string("host-") + hosts.at(static_cast<std::size_t>(context.rank()));
        }
        DeviceRank rank(context, device_of(context.rank()), own);
        body(rank);
        rank.synchronize();
    });
    check_passed(result);
    const std::vector<std::string> violations = gpu::violations();
    CAPTURE(violations);
    CHECK(violations.empty());
}

}  // namespace

void run_on_devices(int ranks, const std::function<void(DeviceRank&)>& body, const base::Config& config) {
    run_with(
        ranks, [](int rank) { return rank; }, body, config);
}

void run_on_hosts(const std::string& hosts, const std::function<void(DeviceRank&)>& body) {
    run_with(
        static_cast<int>(hosts.size()), [](int rank) { return rank; }, body, DeviceRank::settings(), hosts);
}

void run_on_one_device(int ranks, const std::function<void(DeviceRank&)>& body) {
    run_with(
        ranks, [](int /*rank*/) { return 5; }, body, DeviceRank::settings());
}

void check_passed(const RanksResult& result) {
    INFO(result.text());
    CHECK(std::all_of(result.ranks.begin(), result.ranks.end(),
                      [](const RankOutcome& rank) { return rank.end == RankEnd::returned; }));
    // The stand-in keeps descriptors of its own memory until the process ends.
    CHECK(std::all_of(result.leaks.begin(), result.leaks.end(),
                      [](const std::string& leak) { return leak.find("memfd:gpu_stand_in") != std::string::npos; }));
    CHECK(gpu::live_communicators() == 0);
}

}  // namespace rueda::tests
