// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/support/gpu_stand_in/cuda/machine.hpp"
#include "tests/support/gpu_stand_in/cuda/memory.hpp"

// The thread of a device. It looks at the first operation of each stream. From those operations that may run, it
// chooses one at random. CUDA Programming Guide, "Streams": commands of different streams may run out of order or at
// the same time, and a correct program does not depend on it.

namespace rueda::tests::gpu {
namespace {

constexpr std::chrono::microseconds kPollInterval{100};

bool is_due(Operation& operation, Device& device, const Settings& settings) {
    const auto now = std::chrono::steady_clock::now();
    if (!operation.delayed) {
        operation.delayed = true;
        operation.not_before = now;
        if (operation.kind() != Operation::Kind::marker && settings.delays.count() > 0) {
            const auto most = static_cast<std::uint64_t>(settings.delays.count()) + 1;
            operation.not_before += std::chrono::microseconds(device.random() % most);
        }
        for (const auto& [part, delay] : settings.label_delays) {
            if (operation.label().find(part) != std::string::npos) {
                operation.not_before += delay;
            }
        }
    }
    return operation.not_before <= now;
}

}  // namespace

bool Machine::is_ready(Device& device, Operation& operation, bool& poll_again) {
    if (operation.started || device.error != 0) {
        poll_again = true;
        return true;
    }
    for (const CompletionPtr& completion : operation.after) {
        if (!completion->done) {
            return false;
        }
    }
    // NCCL User Guide, "Using multiple NCCL communicators concurrently": if the devices start the kernels of two
    // communicators in different orders, they may deadlock. Assumption: a device runs only one such kernel at a
    // time. NCCL does not promise how many kernels run at a time. With one at a time, such a program certainly hangs.
    if (operation.kind() == Operation::Kind::nccl && settings.one_nccl_kernel && device.nccl_kernels > 0) {
        return false;
    }
    if (!is_due(operation, device, settings) || !operation.may_start()) {
        poll_again = true;
        return false;
    }
    return true;
}

Stream* Machine::choose_stream(Device& device, bool& poll_again) {
    // streams whose operation has started, and now waits for something outside of the device
    std::vector<Stream*> waiting;
    std::vector<Stream*> ready;
    if (device.is_held && device.error == 0) {
        return nullptr;
    }
    for (auto& stream : device.streams) {
        if (!stream->queue.empty() && is_ready(device, *stream->queue.front(), poll_again)) {
            (stream->queue.front()->started ? waiting : ready).push_back(stream.get());
        }
    }
    if (ready.empty()) {
        return waiting.empty() ? nullptr : waiting[device.random() % waiting.size()];
    }
    // Sometimes chooses an operation that waits. It must get the chance to notice the end of its wait, because other
    // operations may wait for it.
    if (!waiting.empty() && device.random() % 2 == 0) {
        return waiting[device.random() % waiting.size()];
    }
    return ready[device.random() % ready.size()];
}

void Machine::execute(Device& device) {
    std::unique_lock lock(mutex);
    while (!stop_) {
        bool poll_again = false;
        Stream* stream = choose_stream(device, poll_again);
        if (stream != nullptr) {
            step(lock, device, *stream);
        } else if (poll_again) {
            changed.wait_for(lock, kPollInterval);
        } else {
            changed.wait(lock);  // submit(), the ends of other operations, and the control functions wake this thread
        }
    }
}

bool Machine::begin(std::unique_lock<std::mutex>& lock, Device& device, Stream& stream, Operation& operation) {
    operation.started = true;
    device.nccl_kernels += operation.kind() == Operation::Kind::nccl ? 1U : 0U;
    operation.clock.join(stream.clock);
    for (const CompletionPtr& completion : operation.after) {
        operation.clock.join(completion->clock);
    }
    operation.after.clear();
    const Time time = operation.clock.advance(stream.actor);
    lock.unlock();
    in_host_function = true;
    const std::vector<Range> ranges = operation.ranges();
    in_host_function = false;
    lock.lock();
    const Accessor accessor{.actor = stream.actor,
                            .time = time,
                            .clock = &operation.clock,
                            .label = describe(stream, operation.label()),
                            .device = device.ordinal,
                            .reaches_other_devices = operation.reaches_other_devices()};
    bool is_good = true;
    for (const Range& range : ranges) {
        is_good = check_access(*this, range, accessor) && is_good;
    }
    if (!is_good) {
        break_device(device, collectives::cuda::kCudaIllegalAddress);
    }
    return is_good;
}

void Machine::step(std::unique_lock<std::mutex>& lock, Device& device, Stream& stream) {
    Operation& operation = *stream.queue.front();
    stream.is_running = true;
    bool is_over = false;
    // Host functions may take a lock of the program, so they run without the lock on the data.
    std::unique_lock<std::mutex> data_lock(data_mutex, std::defer_lock);
    if (operation.kind() != Operation::Kind::host_function) {
        lock.unlock();
        data_lock.lock();
        lock.lock();
    }
    if (device.error == 0 && !operation.started) {
        (void)begin(lock, device, stream, operation);
        changed.notify_all();  // other devices may wait for this kernel of NCCL
    }
    const bool is_dropped = device.error != 0;
    lock.unlock();
    if (is_dropped) {
        operation.drop();
        is_over = true;
    } else {
        in_host_function = true;
        is_over = operation.run();
        in_host_function = false;
    }
    if (data_lock.owns_lock()) {
        data_lock.unlock();
    }
    lock.lock();
    stream.is_running = false;
    if (is_over) {
        finish(device, stream);
    } else if (device.error == 0) {
        changed.wait_for(lock, kPollInterval);
    }
}

void Machine::finish(Device& device, Stream& stream) {
    // The operation is destroyed only after the state was updated, because its destructor may run code of the program.
    const std::unique_ptr<Operation> operation = std::move(stream.queue.front());
    stream.queue.pop_front();
    if (operation->started && operation->kind() == Operation::Kind::nccl) {
        --device.nccl_kernels;
    }
    stream.clock.join(operation->clock);
    operation->completion->clock = stream.clock;
    operation->completion->time = std::chrono::steady_clock::now();
    operation->completion->done = true;
    if (stream.is_destroyed && stream.queue.empty()) {
        std::erase_if(device.streams, [&](const auto& other) { return other.get() == &stream; });
    }
    changed.notify_all();
}

bool Machine::can_run(const Device& device, const Stream& stream) const {
    if (stream.queue.empty() || device.is_held) {
        return false;
    }
    Operation& front = *stream.queue.front();
    const bool is_of_nccl = front.kind() == Operation::Kind::nccl;
    if (stream.is_running || front.started) {
        return stream.is_running && !is_of_nccl;
    }
    if (is_of_nccl && settings.one_nccl_kernel && device.nccl_kernels > 0) {
        return false;
    }
    return front.may_start() && std::all_of(front.after.begin(), front.after.end(),
                                            [](const CompletionPtr& completion) { return completion->done; });
}

bool Machine::has_runnable_work() const {
    for (const auto& device : devices) {
        for (const auto& stream : device->streams) {
            if (can_run(*device, *stream)) {
                return true;
            }
        }
    }
    return false;
}

void Machine::settle(std::unique_lock<std::mutex>& lock) {
    // Some operations poll: NCCL's kernels, and waits for other processes. They need some time to notice that they can
    // continue.
    constexpr std::chrono::milliseconds kQuiet{3};
    constexpr std::chrono::seconds kMost{10};
    const auto begin = std::chrono::steady_clock::now();
    auto quiet_since = begin;
    while (true) {
        const auto now = std::chrono::steady_clock::now();
        const bool is_quiet = !has_runnable_work();
        quiet_since = is_quiet ? quiet_since : now;
        if (now - quiet_since >= kQuiet || now - begin > kMost || (is_quiet && outstanding() == 0)) {
            return;
        }
        changed.wait_for(lock, kPollInterval);
    }
}

void Machine::break_device(Device& device, CudaResult error) {
    if (device.error == 0) {
        device.error = error;
    }
    changed.notify_all();
}

}  // namespace rueda::tests::gpu
