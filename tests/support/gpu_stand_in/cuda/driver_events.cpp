// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <memory>

#include "tests/support/gpu_stand_in/cuda/call.hpp"
#include "tests/support/gpu_stand_in/cuda/memory.hpp"
#include "tests/support/gpu_stand_in/cuda/shared_event.hpp"

// The events of the driver. CUDA Driver API, cuEventRecord: an event stands for the work that was in the stream at the
// call. An event that was never recorded stands for no work, so it is done. Recording again changes the event, but not
// the waits that were submitted before.

using namespace rueda::collectives::cuda;
using namespace rueda::tests::gpu;

namespace {

constexpr CudaResult kCapturedEvent = 907;  // CUDA_ERROR_CAPTURED_EVENT

class RecordEvent final : public Operation {
public:
    explicit RecordEvent(std::shared_ptr<SharedEvent> shared)
        : Operation("cuEventRecord", Kind::marker),
          shared_(std::move(shared)),
          number_(shared_ == nullptr ? 0 : shared_->record()) {}
    bool run() override {
        drop();
        return true;
    }
    void drop() override {
        if (shared_ != nullptr) {
            shared_->complete(number_, clock);
        }
    }

private:
    std::shared_ptr<SharedEvent> shared_;
    std::uint64_t number_;
};

class WaitForEvent final : public Operation {
public:
    WaitForEvent() : Operation("cuStreamWaitEvent", Kind::marker) {}
    bool run() override { return true; }
};

/// An operation that makes a stream wait for an event. Another process may have recorded this event.
class WaitForSharedEvent final : public Operation {
public:
    explicit WaitForSharedEvent(std::shared_ptr<SharedEvent> shared)
        : Operation("cuStreamWaitEvent", Kind::marker), shared_(std::move(shared)), number_(shared_->last_record()) {}
    bool may_start() override { return shared_->is_complete(number_); }
    bool run() override {
        shared_->join_clock(number_, clock);
        return true;
    }

private:
    std::shared_ptr<SharedEvent> shared_;
    std::uint64_t number_;
};

bool is_done(const Event& event) {
    if (event.shared != nullptr) {
        return event.shared->is_complete(event.shared->last_record());
    }
    return event.recorded == nullptr || event.recorded->done;
}

/// Makes the next steps of the host program count as later than the work for which the event stands.
void order_host_after(Machine& machine, const Event& event) {
    if (event.shared != nullptr) {
        event.shared->join_clock(event.shared->last_record(), machine.host);
    } else if (event.recorded != nullptr) {
        machine.host.join(event.recorded->clock);
    }
    machine.memory->exchange(machine.host);
}

bool is_capture_active(const Machine& machine, std::thread::id thread) {
    for (const auto& device : machine.devices) {
        for (const auto& stream : device->streams) {
            if (stream->capture_status == kCaptureActive && stream->capture_thread == thread) {
                return true;
            }
        }
    }
    return false;
}

void wait_for_shared(Machine& machine, std::unique_lock<std::mutex>& lock, Event& event) {
    constexpr std::chrono::microseconds kPollInterval{50};
    const std::shared_ptr<SharedEvent> shared = event.shared;
    const std::uint64_t number = shared->last_record();
    machine.host_waits += shared->is_complete(number) ? 0U : 1U;
    while (!shared->is_complete(number)) {
        machine.changed.wait_for(lock, kPollInterval);
    }
    shared->join_clock(number, machine.host);
    machine.memory->exchange(machine.host);
}

}  // namespace

extern "C" {

CudaResult cuEventCreate(CudaEvent* handle, unsigned flags) {
    Call call("cuEventCreate");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    // CUDA Driver API, cuIpcGetEventHandle: an event between processes also needs CU_EVENT_DISABLE_TIMING.
    const bool is_shared = (flags & kEventInterprocess) != 0;
    if (is_shared && (flags & kEventDisableTiming) == 0) {
        return kCudaInvalidValue;
    }
    auto event = std::make_unique<Event>();
    event->device = &call.device();
    event->flags = flags;
    if (is_shared) {
        event->shared = SharedEvent::create();
    }
    call.machine().events.insert(event.get());
    *handle = reinterpret_cast<CudaEvent>(event.release());
    return kCudaSuccess;
}

CudaResult cuEventDestroy_v2(CudaEvent handle) {
    Call call("cuEventDestroy");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    Event* event = call.event(handle);
    if (event == nullptr) {
        return kCudaInvalidHandle;
    }
    call.machine().events.erase(event);
    delete event;
    return kCudaSuccess;
}

CudaResult cuEventRecord(CudaEvent handle, CudaStream stream_handle) {
    Call call("cuEventRecord");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    Event* event = call.event(handle);
    Stream* stream = call.stream(stream_handle);
    if (event == nullptr || stream == nullptr) {
        return kCudaInvalidHandle;
    }
    // CUDA Driver API, cuEventRecord: event and stream must be of one context.
    if (event->device != stream->device) {
        call.report(fmt::format("the event is of device {}, and the stream is of device {}", event->device->ordinal,
                                stream->device->ordinal));
        return kCudaInvalidHandle;
    }
    if (stream->device->error != kCudaSuccess) {
        return stream->device->error;
    }
    event->is_captured = stream->capture_status != kCaptureNone;
    event->capture_mode = stream->capture_mode;
    event->capture_thread = stream->capture_thread;
    if (event->is_captured) {
        return kCudaSuccess;
    }
    auto operation = std::make_unique<RecordEvent>(event->shared);
    event->recorded = operation->completion;
    call.machine().submit(*stream, std::move(operation));
    return kCudaSuccess;
}

CudaResult cuStreamWaitEvent(CudaStream stream_handle, CudaEvent handle, unsigned flags) {
    Call call("cuStreamWaitEvent");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    Event* event = call.event(handle);
    Stream* stream = call.stream(stream_handle);
    if (event == nullptr || stream == nullptr) {
        return kCudaInvalidHandle;
    }
    if (flags != 0) {
        return kCudaInvalidValue;
    }
    // CUDA Programming Guide, "Cross-stream Dependencies and Events": a wait for a captured event brings the stream
    // into the capture. A capturing stream must not wait for an event that was recorded outside of the capture.
    const bool stream_captures = stream->capture_status != kCaptureNone;
    if (event->is_captured && !stream_captures) {
        if (!is_capture_active(call.machine(), event->capture_thread)) {
            return kCapturedEvent;
        }
        stream->capture_status = kCaptureActive;
        stream->capture_mode = event->capture_mode;
        stream->capture_thread = event->capture_thread;
        return kCudaSuccess;
    }
    if (stream_captures && !event->is_captured) {
        invalidate_captures(call.machine());
        return kCudaCaptureIsolation;
    }
    if (event->shared != nullptr) {
        call.machine().submit(*stream, std::make_unique<WaitForSharedEvent>(event->shared));
        return kCudaSuccess;
    }
    auto operation = std::make_unique<WaitForEvent>();
    if (event->recorded != nullptr) {
        operation->after.push_back(event->recorded);
    }
    call.machine().submit(*stream, std::move(operation));
    return kCudaSuccess;
}

CudaResult cuEventQuery(CudaEvent handle) {
    Call call("cuEventQuery", Call::Needs::initialisation);
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    Event* event = call.event(handle);
    if (event == nullptr) {
        return kCudaInvalidHandle;
    }
    if (event->device->error != kCudaSuccess) {
        return event->device->error;
    }
    if (event->is_captured) {
        invalidate_captures(call.machine());
        return kCapturedEvent;
    }
    if (const CudaResult refused = call.refuse_during_capture(); refused != kCudaSuccess) {
        return refused;
    }
    if (!is_done(*event)) {
        return kCudaNotReady;
    }
    order_host_after(call.machine(), *event);
    return kCudaSuccess;
}

CudaResult cuEventSynchronize(CudaEvent handle) {
    Call call("cuEventSynchronize", Call::Needs::initialisation);
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    Event* event = call.event(handle);
    if (event == nullptr) {
        return kCudaInvalidHandle;
    }
    if (event->is_captured) {
        invalidate_captures(call.machine());
        return kCapturedEvent;
    }
    if (const CudaResult refused = call.refuse_during_capture(); refused != kCudaSuccess) {
        return refused;
    }
    // The reference to the device stays valid even if another thread destroys the event during the wait.
    Device& device = *event->device;
    if (event->shared != nullptr) {
        wait_for_shared(call.machine(), call.lock(), *event);
    } else if (event->recorded != nullptr) {
        call.machine().wait(call.lock(), {event->recorded});
    }
    return device.error;
}

CudaResult cuEventElapsedTime(float* milliseconds, CudaEvent start_handle, CudaEvent end_handle) {
    Call call("cuEventElapsedTime");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    const Event* start = call.event(start_handle);
    const Event* end = call.event(end_handle);
    if (start == nullptr || end == nullptr) {
        return kCudaInvalidHandle;
    }
    // CUDA Driver API, cuEventElapsedTime: both events must have been recorded on one device, and must measure time.
    const bool have_times = ((start->flags | end->flags) & kEventDisableTiming) == 0;
    if (start->recorded == nullptr || end->recorded == nullptr || !have_times || start->device != end->device) {
        return kCudaInvalidHandle;
    }
    if (!start->recorded->done || !end->recorded->done) {
        return kCudaNotReady;
    }
    *milliseconds = std::chrono::duration<float, std::milli>(end->recorded->time - start->recorded->time).count();
    return kCudaSuccess;
}
}

GPU_STAND_IN_CHECK_TYPE(cuEventCreate, event_create);
GPU_STAND_IN_CHECK_TYPE(cuEventDestroy_v2, event_destroy);
GPU_STAND_IN_CHECK_TYPE(cuEventRecord, event_record);
GPU_STAND_IN_CHECK_TYPE(cuStreamWaitEvent, stream_wait_event);
GPU_STAND_IN_CHECK_TYPE(cuEventQuery, event_query);
GPU_STAND_IN_CHECK_TYPE(cuEventSynchronize, event_synchronize);
GPU_STAND_IN_CHECK_TYPE(cuEventElapsedTime, event_elapsed_time);
