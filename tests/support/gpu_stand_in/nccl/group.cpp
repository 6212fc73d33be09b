// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/gpu_stand_in/nccl/group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace rueda::tests::gpu {

using namespace collectives::cuda;

namespace {

/// An operation that makes a stream wait for the kernel of a group. This kernel was launched in another stream.
class WaitForKernel final : public Operation {
public:
    WaitForKernel() : Operation("the end of a group of NCCL", Kind::marker) {}
    bool run() override { return true; }
};

NcclPart make_part(NcclOperation operation) {
    Communicator& communicator = *operation.communicator;
    std::uint64_t number = 0;
    switch (operation.kind) {
        case NcclKind::send:
            number = ++communicator.sends[operation.root];
            break;
        case NcclKind::receive:
            number = ++communicator.receives[operation.root];
            break;
        default:
            number = ++communicator.collectives;
    }
    return {std::move(operation), number};
}

/// Returns the result with which this operation must fail, or 0.
NcclResult take_failure(Settings& settings) {
    for (auto& [remaining, result] : settings.failing_operations) {
        if (remaining > 0 && --remaining == 0) {
            return result;
        }
    }
    return kNcclSuccess;
}

/// Launches the operations of one communicator as one kernel. NCCL user guide, "Group Calls": with several streams, the
/// kernel waits for all of them, and all of them wait for the kernel.
void launch(Machine& machine, const CommunicatorPtr& communicator, std::vector<NcclOperation> operations) {
    std::vector<NcclPart> parts;
    std::vector<Stream*> streams;
    NcclResult failure = kNcclSuccess;
    std::string label = operations.front().describe();
    if (operations.size() > 1) {
        label += fmt::format(" and {} more", operations.size() - 1);
    }
    for (NcclOperation& operation : operations) {
        if (std::find(streams.begin(), streams.end(), operation.stream) == streams.end()) {
            streams.push_back(operation.stream);
        }
        failure = std::max(failure, take_failure(machine.settings));
        parts.push_back(make_part(std::move(operation)));
    }
    auto kernel =
        std::make_unique<NcclKernel>(std::move(label), communicator, std::move(parts), communicator->last_kernel);
    kernel->fail_with(failure);
    const CompletionPtr completion = kernel->completion;
    communicator->last_kernel = completion;
    for (std::size_t i = 1; i < streams.size(); ++i) {
        if (streams[i]->last != nullptr) {
            kernel->after.push_back(streams[i]->last);
        }
    }
    machine.submit(*streams.front(), std::move(kernel));
    for (std::size_t i = 1; i < streams.size(); ++i) {
        auto wait = std::make_unique<WaitForKernel>();
        wait->after.push_back(completion);
        machine.submit(*streams[i], std::move(wait));
    }
}

void end_launches(const std::vector<NcclOperation>& operations) {
    for (const NcclOperation& operation : operations) {
        end_launch(*operation.communicator);
    }
}

/// Delays the launch by some calls of ncclCommGetAsyncError(). Until the launch, the program must not use the streams.
NcclResult launch_later(Machine& machine, const CommunicatorPtr& communicator, std::vector<NcclOperation> operations) {
    const auto most = static_cast<std::uint64_t>(machine.settings.nccl_progress_calls);
    const auto calls = static_cast<int>(machine.choose(most + 1));
    if (calls == 0) {
        end_launches(operations);
        launch(machine, communicator, std::move(operations));
        return kNcclSuccess;
    }
    for (const NcclOperation& operation : operations) {
        ++operation.stream->nccl_calls;
    }
    communicator->progress_calls = calls;
    // This function object does not own the communicator, because the communicator owns the function object.
    communicator->launch = [&machine, held = std::weak_ptr(communicator),
                            operations = std::move(operations)]() mutable {
        for (const NcclOperation& operation : operations) {
            --operation.stream->nccl_calls;
        }
        end_launches(operations);
        if (const CommunicatorPtr owner = held.lock(); owner != nullptr) {
            launch(machine, owner, std::move(operations));
        }
    };
    return kNcclInProgress;
}

/// Returns all kernels of NCCL that run on the devices of these communicators. The kernels may belong to other
/// communicators.
std::vector<CompletionPtr> running_kernels(const std::vector<CommunicatorPtr>& some) {
    std::vector<CompletionPtr> kernels;
    for (const CommunicatorPtr& communicator : some) {
        for (const auto& stream : communicator->device->streams) {
            const Operation* front = stream->queue.empty() ? nullptr : stream->queue.front().get();
            if (front != nullptr && front->started && front->kind() == Operation::Kind::nccl) {
                kernels.push_back(front->completion);
            }
        }
    }
    return kernels;
}

}  // namespace

Group& thread_group() {
    thread_local Group group;
    const std::uint64_t generation = Machine::instance().generation;
    if (group.generation != generation) {  // this group was begun before the last reset()
        group = Group{};
        group.generation = generation;
    }
    return group;
}

// NCCL User Guide, "Thread Safety": several threads may not issue operations in parallel to communicators of one
// device, because nothing then decides the order of the kernels. The stand-in allows it for two ranks of one
// communicator. If a test's ranks are threads, they stand for processes, and each must launch its own part.
void begin_launch(Machine& machine, const Communicator& communicator) {
    Device::NcclLaunches& launches = communicator.device->nccl_launches;
    if (launches.count > 0 && launches.thread != std::this_thread::get_id() &&
        launches.region != communicator.region.get()) {
        machine.report(fmt::format("two threads launch work of two communicators of NCCL on device {} at the same time",
                                   communicator.device->ordinal));
    }
    launches = {launches.count + 1, std::this_thread::get_id(), communicator.region.get()};
}

void end_launch(const Communicator& communicator) { --communicator.device->nccl_launches.count; }

NcclResult start_operations(Machine& machine, std::vector<NcclOperation> operations) {
    NcclResult result = kNcclSuccess;
    while (!operations.empty()) {
        const CommunicatorPtr communicator = operations.front().communicator;
        std::vector<NcclOperation> own;
        std::vector<NcclOperation> others;
        for (NcclOperation& operation : operations) {
            (operation.communicator == communicator ? own : others).push_back(std::move(operation));
        }
        operations = std::move(others);
        if (communicator->is_blocking) {
            end_launches(own);
            launch(machine, communicator, std::move(own));
        } else {
            result = std::max(result, launch_later(machine, communicator, std::move(own)));
        }
    }
    return result;
}

// NCCL user guide, "Error handling": ncclCommAbort() ends the kernels of this rank only, so all ranks must call it.
// An abort also frees memory, and this waits for the other kernels of the device. So a program that aborts several
// communicators one after the other can deadlock. One group around all aborts avoids the deadlock (pytorch#119797).
void abort_communicators(NcclCall& call, const std::vector<CommunicatorPtr>& aborted) {
    Machine& machine = call.machine();
    for (const CommunicatorPtr& communicator : aborted) {
        communicator->aborted.store(true, std::memory_order_release);
        communicator->own().state.store(Region::State::aborted, std::memory_order_release);
        if (communicator->launch != nullptr) {  // the kernel of a pending launch sees `aborted` and ends
            auto launch = std::exchange(communicator->launch, nullptr);
            launch();
        }
    }
    machine.changed.notify_all();
    for (const CompletionPtr& kernel : running_kernels(aborted)) {
        machine.changed.wait(call.lock(), [&] { return kernel->done; });  // finish() wakes us
    }
}

}  // namespace rueda::tests::gpu
