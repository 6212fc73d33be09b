// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <utility>

#include "tests/support/gpu_stand_in/cuda/machine.hpp"
#include "tests/support/gpu_stand_in/cuda/memory.hpp"

// The order between streams that follows from the submission of work. Events order more work (driver_events.cpp).
//
// CUDA Driver API, "Stream synchronization behavior": work in one stream runs in the order of submission. Work in the
// legacy default stream waits for all earlier work in the blocking streams of the context. Later work in a blocking
// stream waits for the work in the legacy default stream. Streams with CU_STREAM_NON_BLOCKING take no part in this.
// Nothing else is ordered.

namespace rueda::tests::gpu {

void Machine::order_with_legacy(Stream& stream, Operation& operation) {
    if (stream.is_legacy) {
        for (auto& other : stream.device->streams) {
            if (other->is_blocking && other->last != nullptr) {
                operation.after.push_back(other->last);
            }
        }
    } else if (stream.is_blocking && stream.device->legacy->last != nullptr) {
        operation.after.push_back(stream.device->legacy->last);
    }
}

void Machine::submit(Stream& stream, std::unique_ptr<Operation> operation) {
    if (stream.nccl_calls > 0 && operation->kind() != Operation::Kind::nccl) {
        // NCCL user guide, "Group Calls": after ncclGroupEnd() on a non-blocking communicator, the kernel may not be in
        // the stream yet. The program must not use the stream until ncclCommGetAsyncError() gives ncclSuccess.
        report(fmt::format("{} is put into a stream while NCCL's call for the stream is in progress",
                           describe(stream, operation->label())));
    }
    if (stream.capture_status != collectives::cuda::kCaptureNone) {
        return;  // in a capturing stream, the operation belongs to the graph and does not run
    }
    order_with_legacy(stream, *operation);
    memory->exchange(host);
    operation->clock = host;
    stream.last = operation->completion;
    stream.queue.push_back(std::move(operation));
    changed.notify_all();
}

std::vector<CompletionPtr> Machine::work_of(const Stream& stream) const {
    std::vector<CompletionPtr> work;
    for (auto& other : stream.device->streams) {
        const bool belongs = other.get() == &stream || (stream.is_legacy && other->is_blocking);
        if (belongs && other->last != nullptr) {
            work.push_back(other->last);
        }
    }
    return work;
}

std::size_t Machine::outstanding() const {
    std::size_t sum = 0;
    for (const auto& device : devices) {
        for (const auto& stream : device->streams) {
            sum += stream->queue.size();
        }
    }
    return sum;
}

void Machine::wait_for_device(std::unique_lock<std::mutex>& lock, Device& device) {
    std::vector<CompletionPtr> work;
    for (auto& stream : device.streams) {
        if (stream->last != nullptr && !stream->last->done) {
            work.push_back(stream->last);
        }
    }
    host_waits += work.empty() ? 0U : 1U;
    for (const CompletionPtr& completion : work) {
        changed.wait(lock, [&] { return completion->done; });  // the device's thread wakes this thread in finish()
    }
}

void Machine::wait(std::unique_lock<std::mutex>& lock, const std::vector<CompletionPtr>& completions) {
    bool waited = false;
    for (const CompletionPtr& completion : completions) {
        waited = waited || !completion->done;
        changed.wait(lock, [&] { return completion->done; });  // the thread of a device wakes this thread in finish()
        host.join(completion->clock);
    }
    host_waits += waited ? 1U : 0U;
    memory->exchange(host);
}

}  // namespace rueda::tests::gpu
