// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests in which order a launch task calls the functions of the driver and of NCCL. In these tests, the functions
// follow a script.
#include "collectives/cuda/nccl/launch_task.hpp"

#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace rueda::collectives::cuda {
namespace {

/// The values that the functions of the tables return, and the calls that these functions recorded. The tests use one
/// thread.
struct Script {
    std::vector<std::string> calls;
    std::deque<NcclResult> states;               ///< what ncclCommGetAsyncError yields; afterwards success
    std::map<std::string, NcclResult> failures;  ///< the errors that functions of NCCL return, by the function's name
    NcclResult group_end = kNcclInProgress;
    std::uintptr_t next = 1;
    int contexts = 0;  ///< the number of contexts that were pushed and not yet popped
};
Script* script = nullptr;

template <class T>
T new_pointer() {
    return std::bit_cast<T>(script->next++);
}
NcclResult seen(const std::string& call) {
    script->calls.push_back(call);
    const auto failure = script->failures.find(call);
    return failure == script->failures.end() ? kNcclSuccess : failure->second;
}

CudaApi scripted_cuda() {
    CudaApi api;
    api.device_get_count = [](int* count) {
        *count = 2;
        return kCudaSuccess;
    };
    api.device_get = [](int* device, int ordinal) {
        *device = ordinal;
        return kCudaSuccess;
    };
    api.device_get_uuid = [](CudaUuid* uuid, int) {
        *uuid = {};
        return kCudaSuccess;
    };
    api.device_get_name = [](char* name, int, int) {
        *name = '\0';
        return kCudaSuccess;
    };
    api.primary_context_retain = [](CudaContext* context, int) {
        *context = new_pointer<CudaContext>();
        return kCudaSuccess;
    };
    api.context_push = [](CudaContext) {
        ++script->contexts;
        return kCudaSuccess;
    };
    api.context_pop = [](CudaContext*) {
        --script->contexts;
        return kCudaSuccess;
    };
    api.stream_is_capturing = [](CudaStream, int* status) {
        *status = kCaptureNone;
        return kCudaSuccess;
    };
    api.thread_exchange_capture_mode = [](int*) { return kCudaSuccess; };
    api.context_get_stream_priority_range = [](int* least, int* greatest) {
        *least = 0;
        *greatest = -5;
        return kCudaSuccess;
    };
    api.stream_create_with_priority = [](CudaStream* stream, unsigned flags, int priority) {
        CHECK(flags == kStreamNonBlocking);
        CHECK(priority == -5);
        *stream = new_pointer<CudaStream>();
        return kCudaSuccess;
    };
    api.event_create = [](CudaEvent* event, unsigned flags) {
        CHECK(flags == kEventDisableTiming);
        *event = new_pointer<CudaEvent>();
        return kCudaSuccess;
    };
    api.event_record = [](CudaEvent, CudaStream) {
        script->calls.emplace_back("record");
        return kCudaSuccess;
    };
    api.stream_wait_event = [](CudaStream, CudaEvent, unsigned) {
        script->calls.emplace_back("wait");
        return kCudaSuccess;
    };
    api.memory_allocate = [](DeviceAddress* address, std::size_t) {
        script->calls.emplace_back("allocate");
        *address = 1 << 20;
        return kCudaSuccess;
    };
    static std::array<std::byte, Device::kPatternBytes> pinned;
    api.host_allocate = [](void** address, std::size_t bytes, unsigned) {
        CHECK(bytes == pinned.size());
        *address = pinned.data();
        return kCudaSuccess;
    };
    api.copy_async = [](DeviceAddress, DeviceAddress, std::size_t bytes, CudaStream) {
        script->calls.push_back("copy " + std::to_string(bytes));
        return kCudaSuccess;
    };
    api.module_load_data = [](CudaModule* module, const void*) {
        *module = new_pointer<CudaModule>();
        return kCudaSuccess;
    };
    api.module_get_function = [](CudaFunction* function, CudaModule, const char*) {
        *function = new_pointer<CudaFunction>();
        return kCudaSuccess;
    };
    api.launch_kernel = [](CudaFunction, unsigned, unsigned rows, unsigned, unsigned, unsigned, unsigned, unsigned,
                           CudaStream, void**, void**) {
        script->calls.push_back("kernel " + std::to_string(rows));
        return kCudaSuccess;
    };
    api.get_error_name = [](CudaResult, const char**) { return kCudaInvalidValue; };
    api.get_error_string = [](CudaResult, const char**) { return kCudaInvalidValue; };
    return api;
}

NcclApi scripted_nccl() {
    NcclApi api;
    api.group_start = [] { return seen("group start"); };
    api.group_end = [] {
        const NcclResult failed = seen("group end");
        return failed == kNcclSuccess ? script->group_end : failed;
    };
    api.all_reduce = [](const void*, void*, std::size_t count, NcclType, NcclReduction reduction, NcclCommunicator,
                        CudaStream) {
        return seen("all_reduce " + std::to_string(count) + (reduction > kNcclAverage ? " own" : ""));
    };
    api.get_async_error = [](NcclCommunicator, NcclResult* state) {
        const NcclResult failed = seen("look");
        *state = script->states.empty() ? kNcclSuccess : script->states.front();
        if (!script->states.empty()) {
            script->states.pop_front();
        }
        return failed;
    };
    api.create_premultiplied_sum = [](NcclReduction* reduction, void*, NcclType, int residence, NcclCommunicator) {
        CHECK(residence == kNcclScalarHostImmediate);
        *reduction = 100;
        return seen("create");
    };
    api.destroy_reduction = [](NcclReduction reduction, NcclCommunicator) {
        CHECK(reduction == 100);
        return seen("destroy");
    };
    api.get_error_string = [](NcclResult) { return "a text"; };
    api.get_last_error = [](NcclCommunicator) { return "the cable is cut"; };
    return api;
}

/// A device, two communicators' tasks on it, and a tensor of three elements.
struct Fixture {
    Fixture() {
        script = &own;
        auto opened = Device::open(scripted_cuda(), 1, "kernels");
        REQUIRE(opened.is_ok());
        device = opened.value();
        task = std::make_unique<LaunchTask>(*device, FailedMember{1, 4, 1, 7});
        other = std::make_unique<LaunchTask>(*device, FailedMember{0, 2, 1});
        task->set_communicator(nccl, std::bit_cast<NcclCommunicator>(std::uintptr_t{7}), Packing::on);
        other->set_communicator(nccl, std::bit_cast<NcclCommunicator>(std::uintptr_t{8}), Packing::on);
    }
    ~Fixture() {
        CHECK(own.contexts == 0);
        task.reset();
        other.reset();
    }
    Fixture(const Fixture&) = delete;
    Fixture& operator=(const Fixture&) = delete;

    [[nodiscard]] DeviceBatch batch() {
        auto recorded = device->record(nullptr);
        REQUIRE(recorded.is_ok());
        event = recorded.value();
        own.calls.clear();
        return {.segments = {&segment, 1}, .ready = {&event, 1}};
    }

    Script own;
    NcclApi nccl = scripted_nccl();
    std::shared_ptr<Device> device;
    std::unique_ptr<LaunchTask> task;
    std::unique_ptr<LaunchTask> other;
    std::array<std::byte, 16> memory{};
    Segment segment{.count = 3, .input = memory.data(), .output = memory.data()};
    DeviceEventPtr event;
};

using Calls = std::vector<std::string>;

TEST_CASE("the end event is recorded after NCCL has launched everything", "[unit]") {
    Fixture fixture;
    fixture.own.states = {kNcclInProgress, kNcclInProgress, kNcclSuccess};
    fixture.task->begin(fixture.batch());
    CHECK(fixture.task->step() == StepResult::polling);
    CHECK(fixture.own.calls == Calls{"wait", "group start", "all_reduce 3", "group end", "look"});
    CHECK(fixture.task->end() == nullptr);
    CHECK(fixture.task->step() == StepResult::polling);
    CHECK(fixture.task->step() == StepResult::done);
    CHECK(fixture.own.calls ==
          Calls{"wait", "group start", "all_reduce 3", "group end", "look", "look", "look", "record"});
    CHECK(fixture.task->end() != nullptr);
    CHECK(fixture.task->step() == StepResult::done);
    CHECK(fixture.task->failed().is_ok());
}

TEST_CASE("a group that NCCL launches at once takes one step", "[unit]") {
    Fixture fixture;
    fixture.own.group_end = kNcclSuccess;
    fixture.task->begin(fixture.batch());
    CHECK(fixture.task->step() == StepResult::done);
    fixture.task->begin(fixture.batch());
    CHECK(fixture.task->end() == nullptr);
    CHECK(fixture.task->step() == StepResult::done);
}

TEST_CASE("a factor's reduction lives from before the group until NCCL is done", "[unit]") {
    Fixture fixture;
    fixture.segment.prescale = 0.25;
    fixture.own.states = {kNcclInProgress};
    fixture.task->begin(fixture.batch());
    CHECK(fixture.task->step() == StepResult::polling);
    CHECK(fixture.task->step() == StepResult::done);
    CHECK(fixture.own.calls ==
          Calls{"wait", "create", "group start", "all_reduce 3 own", "group end", "look", "look", "destroy", "record"});
}

TEST_CASE("kernels pack after the wait for the tensors, and unpack after NCCL has launched everything", "[unit]") {
    Fixture fixture;
    fixture.own.states = {kNcclInProgress, kNcclInProgress};
    const DeviceBatch one = fixture.batch();
    const std::vector<Segment> segments(161, fixture.segment);
    const std::vector<DeviceEventPtr> ready(161, fixture.event);
    fixture.task->begin({.segments = segments, .ready = ready});
    CHECK(fixture.task->step() == StepResult::polling);
    CHECK(fixture.task->step() == StepResult::polling);
    const Calls before{"wait",           "allocate",  "kernel 160", "kernel 1", "group start",
                       "all_reduce 644", "group end", "look",       "look"};
    CHECK(fixture.own.calls == before);
    fixture.other->begin(one);
    // The scratch memory is still in use by the first task, so the second task has to wait.
    CHECK(fixture.other->step() == StepResult::polling);
    CHECK(fixture.own.calls == before);
    CHECK(fixture.task->step() == StepResult::done);
    Calls after = before;
    after.insert(after.end(), {"look", "kernel 160", "kernel 1", "record"});
    CHECK(fixture.own.calls == after);
}

TEST_CASE("a batch without elements waits for its tensors and calls nothing", "[unit]") {
    Fixture fixture;
    fixture.segment.count = 0;
    fixture.task->begin(fixture.batch());
    CHECK(fixture.task->step() == StepResult::done);
    CHECK(fixture.own.calls == Calls{"wait", "record"});
}

TEST_CASE("a member that has joined fills its scratch memory on the stream by a kernel", "[unit]") {
    Fixture fixture;
    fixture.segment = {.count = 3000, .absent = 1};
    static_cast<void>(fixture.batch());
    fixture.task->begin({.segments = {&fixture.segment, 1}});
    CHECK(fixture.task->step() == StepResult::done);
    CHECK(fixture.own.calls ==
          Calls{"allocate", "kernel 1", "group start", "all_reduce 3000", "group end", "look", "record"});
}

TEST_CASE("a member that has joined and has no kernels fills its scratch memory on the stream by copies", "[unit]") {
    Fixture fixture;
    fixture.task->set_communicator(fixture.nccl, std::bit_cast<NcclCommunicator>(std::uintptr_t{7}), Packing::off);
    fixture.segment = {.count = 3000, .absent = 1};
    static_cast<void>(fixture.batch());
    fixture.task->begin({.segments = {&fixture.segment, 1}});
    CHECK(fixture.task->step() == StepResult::done);
    CHECK(fixture.own.calls == Calls{"allocate", "copy 4096", "copy 4096", "copy 3808", "group start",
                                     "all_reduce 3000", "group end", "look", "record"});
    fixture.own.calls.clear();
    fixture.task->begin({.segments = {&fixture.segment, 1}});
    CHECK(fixture.task->step() == StepResult::done);
    CHECK(fixture.own.calls[0] == "copy 4096");  // the second task uses the same scratch memory
}

TEST_CASE("another communicator of the device waits until the first one has launched", "[unit]") {
    Fixture fixture;
    fixture.own.states = {kNcclInProgress};
    fixture.task->begin(fixture.batch());
    CHECK(fixture.task->step() == StepResult::polling);
    const DeviceEventPtr first = fixture.event;
    fixture.other->begin(fixture.batch());
    CHECK(fixture.other->step() == StepResult::polling);
    CHECK(fixture.own.calls.empty());
    CHECK(fixture.task->step() == StepResult::done);
    CHECK(fixture.other->step() == StepResult::done);
}

TEST_CASE("an error in a group still ends the group, and gives the turn back", "[unit]") {
    Fixture fixture;
    fixture.own.failures["all_reduce 3"] = kNcclInvalidArgument;
    fixture.task->begin(fixture.batch());
    CHECK(fixture.task->step() == StepResult::polling);
    CHECK(fixture.own.calls == Calls{"wait", "group start", "all_reduce 3", "group end"});
    CHECK(fixture.task->failed().code() == ErrorCode::aborted);
    CHECK(fixture.task->failed().message() ==
          "ncclAllReduce failed on rank 7 (its GPU 1): ncclInvalidArgument (4): a text; NCCL's last error: the "
          "cable is cut; set NCCL_DEBUG=WARN to see where NCCL failed");
    CHECK(fixture.task->step() == StepResult::polling);  // the task never becomes done
    CHECK(fixture.task->end() == nullptr);
    fixture.own.failures.clear();
    fixture.other->begin(fixture.batch());
    CHECK(fixture.other->step() == StepResult::done);
}

TEST_CASE("every function of NCCL that fails has its name in the error", "[unit]") {
    for (const auto& [call, name] : std::map<std::string, std::string>{{"group start", "ncclGroupStart"},
                                                                       {"group end", "ncclGroupEnd"},
                                                                       {"create", "ncclRedOpCreatePreMulSum"},
                                                                       {"destroy", "ncclRedOpDestroy"},
                                                                       {"look", "ncclCommGetAsyncError"}}) {
        Fixture fixture;
        fixture.segment.prescale = 0.25;
        fixture.own.failures[call] = kNcclSystemError;
        fixture.task->begin(fixture.batch());
        CHECK(fixture.task->step() == StepResult::polling);
        CHECK(fixture.task->failed().message().find(name + " failed on rank 7 (its GPU 1)") == 0);
        CHECK(fixture.own.calls.back() != "record");
    }
}

TEST_CASE("an error while NCCL launches ends the task", "[unit]") {
    Fixture fixture;
    fixture.own.states = {kNcclInProgress, kNcclRemoteError};
    fixture.task->begin(fixture.batch());
    CHECK(fixture.task->step() == StepResult::polling);
    CHECK(fixture.task->step() == StepResult::polling);
    CHECK(fixture.task->failed().message().find("ncclRemoteError (6)") != std::string::npos);
}

TEST_CASE("a tensor that NCCL cannot reduce fails before anything is called", "[unit]") {
    Fixture fixture;
    fixture.segment.dtype = DType::int16;
    fixture.task->begin(fixture.batch());
    CHECK(fixture.task->step() == StepResult::polling);
    CHECK(fixture.own.calls.empty());
    CHECK(fixture.task->failed().code() == ErrorCode::unsupported);
}

}  // namespace
}  // namespace rueda::collectives::cuda
