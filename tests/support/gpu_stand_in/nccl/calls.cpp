// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "collectives/cuda/nccl_api.hpp"
#include "tests/support/gpu_stand_in/cuda/call.hpp"
#include "tests/support/gpu_stand_in/nccl/communicator.hpp"
#include "tests/support/gpu_stand_in/nccl/group.hpp"
#include "tests/support/gpu_stand_in/nccl/kernel.hpp"

// The functions of NCCL.

using namespace rueda::collectives::cuda;
using namespace rueda::tests::gpu;

namespace {

DeviceAddress address(const void* pointer) {
    return static_cast<DeviceAddress>(reinterpret_cast<std::uintptr_t>(pointer));
}

/// Returns the device of this thread's current context. If no context is current, CUDA's runtime, which NCCL uses,
/// selects the primary context of a device (CUDA Runtime API, "Interactions with the CUDA Driver API"). If the thread
/// has chosen no device, the runtime selects device 0 (CUDA Programming Guide, "Device Selection"). A program hardly
/// ever wants this, so the stand-in reports it.
Device* current_device(NcclCall& call) {
    Machine& machine = call.machine();
    const auto& stack = context_stack();
    if (!stack.empty()) {
        return stack.back();
    }
    call.report("no context is current, so NCCL uses device 0");
    return machine.devices.front().get();
}

/// Whether the memory of the operation is registered. NCCL User Guide, "User Buffer Registration": "source and
/// destination buffers must be registered".
std::uint64_t registration_of(NcclCall& call, const NcclOperation& operation) {
    const bool has_input = operation.input_bytes() > 0;
    const bool has_output = operation.output_bytes() > 0;
    const auto* const input = has_input ? operation.communicator->find_registered(operation.input) : nullptr;
    const auto* const output = has_output ? operation.communicator->find_registered(operation.output) : nullptr;
    if (input == nullptr && output == nullptr) {
        return 0;
    }
    if ((has_input && input == nullptr) || (has_output && output == nullptr)) {
        call.report(fmt::format("the {} is in registered memory, and the {} is not",
                                input != nullptr ? "input" : "output", input != nullptr ? "output" : "input"));
        return 0;
    }
    const bool needs_offsets = operation.kind == NcclKind::all_reduce || operation.kind == NcclKind::all_gather ||
                               operation.kind == NcclKind::reduce_scatter;
    return needs_offsets ? 1 + (operation.input - input->begin) * 1000003 + (operation.output - output->begin) : 1;
}

NcclResult check_operation(NcclCall& call, NcclOperation& operation) {
    const Communicator& communicator = *operation.communicator;
    const bool has_reduction = operation.kind == NcclKind::all_reduce || operation.kind == NcclKind::reduce ||
                               operation.kind == NcclKind::reduce_scatter;
    if (element_bytes(operation.type) == 0 || operation.root < 0 || operation.root >= communicator.ranks) {
        return kNcclInvalidArgument;
    }
    if (has_reduction && operation.reduction > kNcclAverage) {
        const auto index = static_cast<std::size_t>(operation.reduction - kNcclAverage - 1);
        // NCCL User Guide, "User Defined Reduction Operators": a reduction belongs to one communicator and one type. It
        // may be destroyed as soon as the last function that uses it has returned. So its factor is copied here.
        const auto& reductions = communicator.reductions;
        if (index >= reductions.size() || !reductions[index].has_value() || reductions[index]->type != operation.type) {
            call.report("the reduction was destroyed, or belongs to another communicator or type");
            return kNcclInvalidArgument;
        }
        operation.factor = reductions[index]->factor;
    }
    if (has_reduction && operation.reduction < 0) {
        return kNcclInvalidArgument;
    }
    // NCCL user guide, "Creating a communicator": a communicator works on the device that was current when it was made,
    // so its streams are of this device.
    if (operation.stream->device != communicator.device) {
        call.report(fmt::format("the stream is of device {}, and the communicator is of device {}",
                                operation.stream->device->ordinal, communicator.device->ordinal));
        return kNcclInvalidArgument;
    }
    if (operation.stream->capture_status != kCaptureNone) {
        call.report("the stream captures a graph");
        return kNcclInvalidUsage;
    }
    operation.registered = registration_of(call, operation);
    return communicator.device->error != kCudaSuccess ? kNcclUnhandledCudaError : kNcclSuccess;
}

NcclResult enqueue(NcclOperation operation, NcclCommunicator handle, CudaStream stream) {
    NcclCall call(function_name(operation.kind));
    Group& group = thread_group();
    NcclResult result = call.error();
    if (result == kNcclSuccess) {
        operation.communicator = call.find_ready(handle);
        result = call.error();
    }
    if (result == kNcclSuccess) {
        operation.stream = call.machine().find_stream(stream, *operation.communicator->device);
        if (operation.stream == nullptr) {
            call.report("the stream does not exist; it may have been destroyed");
        }
        result = operation.stream == nullptr ? kNcclInvalidArgument : check_operation(call, operation);
    }
    if (group.depth > 0) {
        group.error = group.error == kNcclSuccess ? result : group.error;
        if (result == kNcclSuccess) {
            begin_launch(call.machine(), *operation.communicator);
            group.operations.push_back(std::move(operation));
        }
        return result;
    }
    if (result != kNcclSuccess) {
        return result;
    }
    begin_launch(call.machine(), *operation.communicator);
    std::vector<NcclOperation> operations;
    operations.push_back(std::move(operation));
    return start_operations(call.machine(), std::move(operations));
}

/// Ends a call that is in progress on a non-blocking communicator, if it can end now.
void make_progress(Communicator& communicator) {
    if (communicator.progress_calls > 0) {
        --communicator.progress_calls;
    }
    if (!communicator.is_connected) {
        communicator.try_to_connect();
    } else if (communicator.progress_calls == 0 && communicator.launch != nullptr) {
        auto launch = std::exchange(communicator.launch, nullptr);
        launch();
    }
}

/// NCCL user guide, "Environment Variables": NCCL_COMM_BLOCKING overrides the field of the configuration.
bool is_blocking(const NcclConfig* config) {
    const char* text =
        std::getenv("NCCL_COMM_BLOCKING");  // NOLINT(concurrency-mt-unsafe): no test changes it meanwhile
    if (text != nullptr) {
        return std::string(text) != "0";
    }
    return config == nullptr || config->blocking != 0;
}

/// Waits until the communicator is connected.
NcclResult wait_for_connection(NcclCall& call, Communicator& communicator) {
    call.wait(communicator, [&] {
        communicator.try_to_connect();
        return communicator.is_connected || communicator.error != kNcclSuccess;
    });
    return communicator.error;
}

void forget(NcclCall& call, NcclCommunicator handle) {
    communicators().erase(handle);
    delete reinterpret_cast<char*>(handle);
    --call.machine().communicators;
}

}  // namespace

extern "C" {

NcclResult ncclGetVersion(int* version) {
    NcclCall call("ncclGetVersion");
    *version = call.machine().settings.nccl_version;
    return call.error();
}

NcclResult ncclGetUniqueId(NcclUniqueId* id) {
    NcclCall call("ncclGetUniqueId");
    if (call.error() != kNcclSuccess) {
        return call.error();
    }
    const auto made = Region::create();
    if (!made.has_value()) {
        return kNcclSystemError;
    }
    *id = *made;
    return kNcclSuccess;
}

NcclResult ncclCommInitRankConfig(NcclCommunicator* handle, int ranks, NcclUniqueId id, int rank, NcclConfig* config) {
    NcclCall call("ncclCommInitRankConfig");
    if (call.error() != kNcclSuccess) {
        return call.error();
    }
    *handle = nullptr;
    const bool is_configured = config == nullptr || (config->magic == NcclConfig::kMagic && config->size >= 16);
    if (ranks < 1 || ranks > kMostRanks || rank < 0 || rank >= ranks || !is_configured) {
        return kNcclInvalidArgument;
    }
    auto communicator = std::make_shared<Communicator>();
    communicator->rank = rank;
    communicator->ranks = ranks;
    communicator->device = current_device(call);
    communicator->is_blocking = is_blocking(config);
    communicator->region = Region::open(id);
    if (communicator->region == nullptr) {
        return kNcclSystemError;
    }
    if (const NcclResult joined = communicator->join(); joined != kNcclSuccess) {
        call.report(communicator->last_error);
        return joined;
    }
    *handle = reinterpret_cast<NcclCommunicator>(new char);
    communicators()[*handle] = communicator;
    ++call.machine().communicators;
    if (!communicator->is_blocking) {
        const auto most = static_cast<std::uint64_t>(call.machine().settings.nccl_progress_calls);
        communicator->progress_calls = 1 + static_cast<int>(call.machine().choose(most + 1));
        return kNcclInProgress;
    }
    if (Group& group = thread_group(); group.depth > 0) {
        // NCCL user guide, "Management Of Multiple GPUs From One Thread": ncclGroupEnd() waits for all communicators of
        // the group together.
        group.connecting.push_back(communicator);
        return kNcclSuccess;
    }
    const NcclResult connected = wait_for_connection(call, *communicator);
    if (connected != kNcclSuccess) {
        forget(call, *handle);
        *handle = nullptr;
    }
    return connected;
}

NcclResult ncclCommFinalize(NcclCommunicator handle) {
    NcclCall call("ncclCommFinalize");
    const CommunicatorPtr communicator = call.error() == kNcclSuccess ? call.find_ready(handle) : nullptr;
    if (communicator == nullptr) {
        return call.error();
    }
    // NCCL User Guide, "ncclCommFinalize": the communicator is in progress until all its operations are complete. The
    // call is collective among the ranks of a host. Here it is collective among all ranks.
    communicator->is_finalized = true;
    communicator->own().state.store(Region::State::finalized, std::memory_order_release);
    if (!communicator->is_blocking) {
        return kNcclInProgress;
    }
    call.wait(*communicator, [&] { return communicator->is_flushed(); });
    return kNcclSuccess;
}

NcclResult ncclCommDestroy(NcclCommunicator handle) {
    NcclCall call("ncclCommDestroy");
    const CommunicatorPtr communicator = call.error() == kNcclSuccess ? call.find(handle) : nullptr;
    if (communicator == nullptr) {
        return call.error();
    }
    // NCCL User Guide, "ncclCommDestroy": after ncclCommFinalize(), the program must wait for ncclSuccess. Without
    // ncclCommFinalize(), this function does the same work. The call is collective among the ranks of a host. Here it
    // is collective among all ranks.
    if (communicator->is_in_progress()) {
        call.report("the communicator is destroyed before its last call succeeded");
    }
    communicator->own().state.store(Region::State::finalized, std::memory_order_release);
    call.wait(*communicator, [&] { return communicator->is_flushed(); });
    forget(call, handle);
    return kNcclSuccess;
}

NcclResult ncclCommAbort(NcclCommunicator handle) {
    NcclCall call("ncclCommAbort");
    const CommunicatorPtr communicator = call.error() == kNcclSuccess ? call.find(handle) : nullptr;
    if (communicator == nullptr) {
        return call.error();
    }
    // NCCL user guide, "Error handling": no thread may be inside NCCL with the communicator during an abort.
    if (communicator->inside > 0) {
        call.report("another thread is inside NCCL with this communicator");
    }
    Group& group = thread_group();
    constexpr int kFirstVersionWithGroups = 22200;  // NCCL's nccl.h.in at tag 2.22
    if (group.depth > 0 && call.machine().settings.nccl_version < kFirstVersionWithGroups) {
        call.report("this version does not allow an abort in a group");
        return kNcclInvalidUsage;
    }
    forget(call, handle);
    if (group.depth > 0) {
        group.aborts.push_back(communicator);
        return kNcclSuccess;
    }
    abort_communicators(call, {communicator});
    return kNcclSuccess;
}

NcclResult ncclCommGetAsyncError(NcclCommunicator handle, NcclResult* error) {
    NcclCall call("ncclCommGetAsyncError");
    const CommunicatorPtr communicator = call.error() == kNcclSuccess ? call.find(handle) : nullptr;
    if (communicator == nullptr) {
        return call.error();
    }
    make_progress(*communicator);
    communicator->look_for_lost_ranks();
    *error = communicator->error;
    if (*error == kNcclSuccess &&
        (communicator->is_in_progress() || (communicator->is_finalized && !communicator->is_flushed()))) {
        *error = kNcclInProgress;
    }
    return kNcclSuccess;
}

const char* ncclGetErrorString(NcclResult result) {
    constexpr const char* kTexts[] = {"no error",
                                      "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                                      "unhandled system error (run with NCCL_DEBUG=INFO for details)",
                                      "internal error - please report this issue to the NCCL developers",
                                      "invalid argument (run with NCCL_DEBUG=WARN for details)",
                                      "invalid usage (run with NCCL_DEBUG=WARN for details)",
                                      "remote process exited or there was a network error",
                                      "NCCL operation in progress"};
    return result >= 0 && result <= kNcclInProgress ? kTexts[result] : "unknown result code";
}

const char* ncclGetLastError(NcclCommunicator handle) {
    thread_local std::string text;
    const std::lock_guard lock(Machine::instance().mutex);
    const auto found = communicators().find(handle);
    text = found == communicators().end() ? "" : found->second->last_error;
    return text.c_str();
}

NcclResult ncclAllReduce(const void* input, void* output, std::size_t count, NcclType type, NcclReduction reduction,
                         NcclCommunicator communicator, CudaStream stream) {
    return enqueue({.kind = NcclKind::all_reduce,
                    .input = address(input),
                    .output = address(output),
                    .count = count,
                    .type = type,
                    .reduction = reduction},
                   communicator, stream);
}

NcclResult ncclBroadcast(const void* input, void* output, std::size_t count, NcclType type, int root,
                         NcclCommunicator communicator, CudaStream stream) {
    return enqueue({.kind = NcclKind::broadcast,
                    .input = address(input),
                    .output = address(output),
                    .count = count,
                    .type = type,
                    .root = root},
                   communicator, stream);
}

NcclResult ncclReduce(const void* input, void* output, std::size_t count, NcclType type, NcclReduction reduction,
                      int root, NcclCommunicator communicator, CudaStream stream) {
    return enqueue({.kind = NcclKind::reduce,
                    .input = address(input),
                    .output = address(output),
                    .count = count,
                    .type = type,
                    .reduction = reduction,
                    .root = root},
                   communicator, stream);
}

NcclResult ncclAllGather(const void* input, void* output, std::size_t count, NcclType type,
                         NcclCommunicator communicator, CudaStream stream) {
    return enqueue({.kind = NcclKind::all_gather,
                    .input = address(input),
                    .output = address(output),
                    .count = count,
                    .type = type},
                   communicator, stream);
}

NcclResult ncclReduceScatter(const void* input, void* output, std::size_t count, NcclType type, NcclReduction reduction,
                             NcclCommunicator communicator, CudaStream stream) {
    return enqueue({.kind = NcclKind::reduce_scatter,
                    .input = address(input),
                    .output = address(output),
                    .count = count,
                    .type = type,
                    .reduction = reduction},
                   communicator, stream);
}

NcclResult ncclSend(const void* input, std::size_t count, NcclType type, int peer, NcclCommunicator communicator,
                    CudaStream stream) {
    return enqueue({.kind = NcclKind::send, .input = address(input), .count = count, .type = type, .root = peer},
                   communicator, stream);
}

NcclResult ncclRecv(void* output, std::size_t count, NcclType type, int peer, NcclCommunicator communicator,
                    CudaStream stream) {
    return enqueue({.kind = NcclKind::receive, .output = address(output), .count = count, .type = type, .root = peer},
                   communicator, stream);
}

NcclResult ncclGroupStart() {
    NcclCall call("ncclGroupStart");
    if (call.error() == kNcclSuccess) {
        ++thread_group().depth;
    }
    return call.error();
}

NcclResult ncclGroupEnd() {
    NcclCall call("ncclGroupEnd");
    Group& group = thread_group();
    if (group.depth == 0) {
        call.report("there was no ncclGroupStart");
        return kNcclInvalidUsage;
    }
    if (--group.depth > 0) {
        return call.error();
    }
    Group ended = std::exchange(group, Group{});
    const NcclResult error = call.error() != kNcclSuccess ? call.error() : ended.error;
    NcclResult connected = kNcclSuccess;
    for (const CommunicatorPtr& communicator : ended.connecting) {
        connected = std::max(connected, wait_for_connection(call, *communicator));
    }
    if (!ended.aborts.empty()) {
        abort_communicators(call, ended.aborts);
    }
    if (error != kNcclSuccess || connected != kNcclSuccess) {
        for (const NcclOperation& operation : ended.operations) {
            end_launch(*operation.communicator);
        }
        return error != kNcclSuccess ? error : connected;
    }
    return start_operations(call.machine(), std::move(ended.operations));
}

NcclResult ncclRedOpCreatePreMulSum(NcclReduction* reduction, void* factor, NcclType type, int residence,
                                    NcclCommunicator handle) {
    NcclCall call("ncclRedOpCreatePreMulSum");
    const CommunicatorPtr communicator = call.error() == kNcclSuccess ? call.find_ready(handle) : nullptr;
    if (communicator == nullptr) {
        return call.error();
    }
    if (element_bytes(type) == 0 || residence != kNcclScalarHostImmediate) {
        return kNcclInvalidArgument;
    }
    // NCCL user guide, ncclScalarHostImmediate: the factor is read during the call.
    Communicator::Factored made{.type = type, .factor = {}};
    std::memcpy(made.factor.data(), factor, element_bytes(type));
    communicator->reductions.emplace_back(made);
    *reduction = kNcclAverage + static_cast<NcclReduction>(communicator->reductions.size());
    return kNcclSuccess;
}

NcclResult ncclRedOpDestroy(NcclReduction reduction, NcclCommunicator handle) {
    NcclCall call("ncclRedOpDestroy");
    const CommunicatorPtr communicator = call.error() == kNcclSuccess ? call.find(handle) : nullptr;
    if (communicator == nullptr) {
        return call.error();
    }
    const auto index = static_cast<std::size_t>(reduction - kNcclAverage - 1);
    if (reduction <= kNcclAverage || index >= communicator->reductions.size() ||
        !communicator->reductions[index].has_value()) {
        return kNcclInvalidArgument;
    }
    communicator->reductions[index].reset();
    return kNcclSuccess;
}
}

#define GPU_STAND_IN_CHECK_NCCL(function, member) \
    static_assert(std::is_same_v<decltype(&(function)), decltype(NcclApi::member)>)
GPU_STAND_IN_CHECK_NCCL(ncclGetVersion, get_version);
GPU_STAND_IN_CHECK_NCCL(ncclGetUniqueId, get_unique_id);
GPU_STAND_IN_CHECK_NCCL(ncclCommInitRankConfig, init_rank);
GPU_STAND_IN_CHECK_NCCL(ncclCommFinalize, finalize);
GPU_STAND_IN_CHECK_NCCL(ncclCommDestroy, destroy);
GPU_STAND_IN_CHECK_NCCL(ncclCommAbort, abort);
GPU_STAND_IN_CHECK_NCCL(ncclCommGetAsyncError, get_async_error);
GPU_STAND_IN_CHECK_NCCL(ncclGetErrorString, get_error_string);
GPU_STAND_IN_CHECK_NCCL(ncclGetLastError, get_last_error);
GPU_STAND_IN_CHECK_NCCL(ncclAllReduce, all_reduce);
GPU_STAND_IN_CHECK_NCCL(ncclBroadcast, broadcast);
GPU_STAND_IN_CHECK_NCCL(ncclReduce, reduce);
GPU_STAND_IN_CHECK_NCCL(ncclAllGather, all_gather);
GPU_STAND_IN_CHECK_NCCL(ncclReduceScatter, reduce_scatter);
GPU_STAND_IN_CHECK_NCCL(ncclSend, send);
GPU_STAND_IN_CHECK_NCCL(ncclRecv, receive);
GPU_STAND_IN_CHECK_NCCL(ncclGroupStart, group_start);
GPU_STAND_IN_CHECK_NCCL(ncclGroupEnd, group_end);
GPU_STAND_IN_CHECK_NCCL(ncclRedOpCreatePreMulSum, create_premultiplied_sum);
GPU_STAND_IN_CHECK_NCCL(ncclRedOpDestroy, destroy_reduction);
