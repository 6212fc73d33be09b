// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/replicas/device_team.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "ops/cuda/launch.hpp"

namespace rueda::collectives::cuda {
namespace {

/// Parts and slots begin at multiples of this number of bytes. The kernels need multiples of 16 for full speed, and a
/// GPU moves its memory in lines of at most 128 bytes.
constexpr std::size_t kTeamAlignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + kTeamAlignment - 1) / kTeamAlignment * kTeamAlignment; }

/// Gives the device whose context is current access to the memory of another device. Returns false if the devices do
/// not support this.
bool can_reach(const Device& device, const Device& other) {
    const CudaApi& api = device.api();
    CudaDevice handle = 0;
    CudaDevice other_handle = 0;
    int can = 0;
    if (api.device_get(&handle, device.ordinal()) != kCudaSuccess ||
        api.device_get(&other_handle, other.ordinal()) != kCudaSuccess ||
        api.device_can_access_peer(&can, handle, other_handle) != kCudaSuccess || can == 0) {
        return false;
    }
    const CudaResult result = api.context_enable_peer_access(other.context(), 0);
    return result == kCudaSuccess || result == kCudaPeerAccessEnabled;
}

DeviceAddress address_of(const std::byte* memory) { return std::bit_cast<std::uintptr_t>(memory); }

}  // namespace

TeamPart team_part(std::size_t tensor_bytes, std::size_t home, std::size_t homes, std::size_t divided_bytes) {
    if (homes == 1 || tensor_bytes < divided_bytes) {
        return {.begin = 0, .bytes = home == 0 ? tensor_bytes : 0};
    }
    const std::size_t each = aligned((tensor_bytes + homes - 1) / homes);
    const std::size_t begin = std::min(home * each, tensor_bytes);
    return {.begin = begin, .bytes = std::min(each, tensor_bytes - begin)};
}

CudaDeviceTeam::CudaDeviceTeam(DeviceTeamPlan plan, std::shared_ptr<ProgramMemory> memory, std::size_t divided_bytes)
    : plan_(std::move(plan)),
      memory_(std::move(memory)),
      divided_bytes_(divided_bytes),
      ready_(plan_.summed, std::vector<DeviceEventPtr>(plan_.replicas.size())) {}

CudaDeviceTeam::~CudaDeviceTeam() {
    for (const Home& home : homes_) {
        if (home.scratch != nullptr) {
            // ProgramMemory frees the scratch memory when the device has done the work that is in the team's streams
            // now.
            static_cast<void>(memory_->give_back(home.scratch));
        }
    }
}

Result<std::unique_ptr<DeviceTeam>> CudaDeviceTeam::make(DeviceTeamPlan plan,
                                                         std::span<const std::shared_ptr<StagingDevice>> devices,
                                                         std::shared_ptr<ProgramMemory> memory,
                                                         const std::function<void(const std::string& text)>& note,
                                                         std::size_t divided_bytes) {
    if (devices.empty() || devices.size() > std::size_t{ops::cuda::kMostSources}) {
        return failure(ErrorCode::invalid_argument, "there are {} replicas on GPUs; expected 1 to {} in a process",
                       devices.size(), ops::cuda::kMostSources);
    }
    std::unique_ptr<CudaDeviceTeam> team(new CudaDeviceTeam(std::move(plan), std::move(memory), divided_bytes));
    RUEDA_RETURN_IF_FAILED(team->add_homes(devices));
    RUEDA_RETURN_IF_FAILED(team->enable_peer_access(note));
    RUEDA_RETURN_IF_FAILED(team->allocate_scratch());
    return std::unique_ptr<DeviceTeam>(std::move(team));
}

Status CudaDeviceTeam::add_homes(std::span<const std::shared_ptr<StagingDevice>> devices) {
    for (std::size_t replica = 0; replica < devices.size(); ++replica) {
        StagingDevice& device = *devices[replica];
        auto found = std::find_if(homes_.begin(), homes_.end(),
                                  [&](const Home& home) { return home.device.get() == &device.device(); });
        if (found == homes_.end()) {
            auto stream = device.stream(StagingDevice::Stream::replicas);
            RUEDA_RETURN_IF_FAILED(stream.status());
            found = homes_.insert(homes_.end(), Home{.device = device.shared_device(), .stream = stream.value()});
        }
        found->replicas.push_back(replica);
        home_of_.push_back(static_cast<std::size_t>(found - homes_.begin()));
    }
    return {};
}

/// Lets the devices copy directly from each other's memory. Without this, the driver copies through the host's memory
/// (CUDA Driver API, cuMemcpyPeerAsync and cuCtxEnablePeerAccess), which is slower but works.
Status CudaDeviceTeam::enable_peer_access(const std::function<void(const std::string& text)>& note) {
    for (const Home& home : homes_) {
        const CudaApi& api = home.device->api();
        const RelaxedCapture relaxed(api);
        const ContextScope scope(api, home.device->context());
        if (scope.error() != kCudaSuccess) {
            return home.device->failure_of("cuCtxPushCurrent", scope.error());
        }
        for (const Home& other : homes_) {
            if (&other != &home && !can_reach(*home.device, *other.device)) {
                note(
                    fmt::format("GPU {} cannot reach the memory of GPU {} directly, so replicas on these GPUs exchange "
                                "their gradients through the host's memory",
                                home.device->ordinal(), other.device->ordinal()));
            }
        }
    }
    return {};
}

Status CudaDeviceTeam::allocate_scratch() {
    if (homes_.size() == 1) {
        return {};  // all replicas are on one device, so the kernel reads them without scratch memory
    }
    for (std::size_t i = 0; i < homes_.size(); ++i) {
        Home& home = homes_[i];
        for (const TeamTensor& tensor : std::span(plan_.tensors).first(plan_.summed)) {
            home.slot_bytes = std::max(home.slot_bytes, aligned(part(tensor, i).bytes));
        }
        const std::size_t slots = plan_.replicas.size() - home.replicas.size() + (i == 0 ? 0 : 1);
        if (home.slot_bytes == 0) {
            continue;
        }
        auto allocated = memory_->allocate(home.device, slots * home.slot_bytes, nullptr);
        if (!allocated.is_ok()) {
            return failure(
                allocated.status().code(),
                "{} bytes in the memory of GPU {}, in which the gradients of {} replicas are added up, could "
                "not be allocated: {}; leave more of the GPU's memory free, or use fewer replicas",
                slots * home.slot_bytes, home.device->ordinal(), plan_.replicas.size(), allocated.status().message());
        }
        home.scratch = allocated.value();
    }
    return {};
}

Result<bool> CudaDeviceTeam::ready(std::size_t replica, std::size_t tensor) {
    const Home& home = homes_[home_of_[replica]];
    auto* const stream = static_cast<CudaStream>(plan_.replicas[replica].stream);
    RUEDA_RETURN_IF_FAILED(home.device->check_not_capturing(stream, "add up gradients"));
    auto event = home.device->record(stream);
    RUEDA_RETURN_IF_FAILED(event.status());

    const std::lock_guard lock(mutex_);
    std::vector<DeviceEventPtr>& ready = ready_[tensor];
    ready[replica] = std::move(event).value();
    if (std::any_of(ready.begin(), ready.end(), [](const DeviceEventPtr& each) { return each == nullptr; })) {
        return false;
    }
    RUEDA_RETURN_IF_FAILED(sum(plan_.tensors[tensor], ready));
    std::fill(ready.begin(), ready.end(), nullptr);
    return true;
}

/// Makes the stream of the first home (the device of replica 0) wait for the work that is now in the streams of the
/// other homes.
Status CudaDeviceTeam::first_waits_for_others() {
    for (const Home& home : std::span(homes_).subspan(1)) {
        auto event = home.device->record(home.stream);
        RUEDA_RETURN_IF_FAILED(event.status());
        RUEDA_RETURN_IF_FAILED(event.value()->make_wait(stream()));
    }
    return {};
}

Status CudaDeviceTeam::others_wait_for_first() {
    if (homes_.size() == 1) {
        return {};
    }
    auto event = homes_.front().device->record(homes_.front().stream);
    RUEDA_RETURN_IF_FAILED(event.status());
    for (const Home& home : std::span(homes_).subspan(1)) {
        RUEDA_RETURN_IF_FAILED(event.value()->make_wait(home.team_stream()));
    }
    return {};
}

Status CudaDeviceTeam::sum(const TeamTensor& tensor, std::span<const DeviceEventPtr> ready) {
    if (tensor.count == 0) {
        return {};
    }
    for (const DeviceEventPtr& event : ready) {
        RUEDA_RETURN_IF_FAILED(event->make_wait(stream()));
    }
    const bool is_divided = homes_.size() > 1 && part(tensor, 1).bytes > 0;
    if (is_divided) {
        RUEDA_RETURN_IF_FAILED(others_wait_for_first());
    }
    for (std::size_t home = 0; home < homes_.size(); ++home) {
        if (const TeamPart own = part(tensor, home); own.bytes > 0) {
            RUEDA_RETURN_IF_FAILED(sum_part(tensor, home, own));
        }
    }
    return is_divided ? first_waits_for_others() : Status();
}

/// Adds up a part of all replicas on one home (a device with replicas). The replicas are added in the order of their
/// numbers, no matter which devices they are on.
Status CudaDeviceTeam::sum_part(const TeamTensor& tensor, std::size_t number, TeamPart own) {
    const Home& home = homes_[number];
    std::vector<const std::byte*> sources;
    std::byte* slot = home.scratch;
    for (std::size_t replica = 0; replica < tensor.replicas.size(); ++replica) {
        const std::byte* const memory = tensor.replicas[replica] + own.begin;
        if (home_of_[replica] == number) {
            sources.push_back(memory);
            continue;
        }
        RUEDA_RETURN_IF_FAILED(copy(home, slot, home, memory, homes_[home_of_[replica]], own.bytes));
        sources.push_back(slot);
        slot += home.slot_bytes;
    }
    std::byte* const sum = number == 0 ? tensor.replicas[0] + own.begin : slot;
    const ops::Reduction reduction{.dtype = tensor.dtype,
                                   .op = plan_.op,
                                   .postscale = plan_.postscale,
                                   .divisor = static_cast<int>(tensor.replicas.size())};
    RUEDA_RETURN_IF_FAILED(home.device->kernels().launch(
        ops::cuda::reduce_launch(reduction, sources, sum, own.bytes / size_of(tensor.dtype)), home.stream));
    return number == 0 ? Status() : copy(home, tensor.replicas[0] + own.begin, homes_.front(), sum, home, own.bytes);
}

/// Puts a copy into the stream of `on`, a home (a device with replicas).
Status CudaDeviceTeam::copy(const Home& on, std::byte* to, const Home& to_home, const std::byte* from,
                            const Home& from_home, std::size_t bytes) {
    const CudaApi& api = on.device->api();
    const RelaxedCapture relaxed(api);
    const ContextScope scope(api, on.device->context());
    if (scope.error() != kCudaSuccess) {
        return on.device->failure_of("cuCtxPushCurrent", scope.error());
    }
    if (&to_home == &from_home) {
        const CudaResult result = api.copy_async(address_of(to), address_of(from), bytes, on.stream);
        return result == kCudaSuccess ? Status() : on.device->failure_of("cuMemcpyAsync", result);
    }
    const CudaResult result = api.copy_peer_async(address_of(to), to_home.device->context(), address_of(from),
                                                  from_home.device->context(), bytes, on.stream);
    return result == kCudaSuccess ? Status() : on.device->failure_of("cuMemcpyPeerAsync", result);
}

Status CudaDeviceTeam::follow() {
    const std::lock_guard lock(mutex_);
    for (std::size_t replica = 0; replica < plan_.replicas.size(); ++replica) {
        Device& device = *homes_[home_of_[replica]].device;
        auto* const program = static_cast<CudaStream>(plan_.replicas[replica].stream);
        RUEDA_RETURN_IF_FAILED(device.check_not_capturing(program, "copy tensors to the replicas"));
        auto event = device.record(program);
        RUEDA_RETURN_IF_FAILED(event.status());
        RUEDA_RETURN_IF_FAILED(event.value()->make_wait(stream()));
    }
    return others_wait_for_first();
}

/// First each home (device) copies one part of a large tensor from replica 0. Then the homes copy the other parts from
/// each other. So no device sends much more than the size of the tensor, and all connections are used at the same time.
Status CudaDeviceTeam::distribute(std::size_t number) {
    const TeamTensor& tensor = plan_.tensors[number];
    if (tensor.count == 0 || tensor.replicas.size() == 1) {
        return {};
    }
    const std::lock_guard lock(mutex_);
    if (homes_.size() > 1) {
        RUEDA_RETURN_IF_FAILED(others_wait_for_first());
        RUEDA_RETURN_IF_FAILED(copy_parts_to_homes(tensor));
        if (part(tensor, 1).bytes > 0) {
            RUEDA_RETURN_IF_FAILED(exchange_parts(tensor));
        }
    }
    return copy_within_homes(tensor);
}

/// Copies from replica 0 to the first replica of every other home (device): the home's part of a large tensor, or the
/// whole of a small tensor.
Status CudaDeviceTeam::copy_parts_to_homes(const TeamTensor& tensor) {
    const bool is_divided = part(tensor, 1).bytes > 0;
    for (std::size_t i = 1; i < homes_.size(); ++i) {
        const TeamPart own = is_divided ? part(tensor, i) : TeamPart{.begin = 0, .bytes = tensor.bytes()};
        if (own.bytes > 0) {
            RUEDA_RETURN_IF_FAILED(copy(homes_[i], tensor.replicas[homes_[i].first()] + own.begin, homes_[i],
                                        tensor.replicas[0] + own.begin, homes_.front(), own.bytes));
        }
    }
    return {};
}

/// Every home (device) except the first copies the parts of all other homes to its own first replica.
Status CudaDeviceTeam::exchange_parts(const TeamTensor& tensor) {
    RUEDA_RETURN_IF_FAILED(first_waits_for_others());
    RUEDA_RETURN_IF_FAILED(others_wait_for_first());
    for (std::size_t to = 1; to < homes_.size(); ++to) {
        for (std::size_t step = 1; step < homes_.size(); ++step) {
            const std::size_t from = (to + step) % homes_.size();  // every home begins with a different source, to
                                                                   // spread the load
            if (const TeamPart each = part(tensor, from); each.bytes > 0) {
                RUEDA_RETURN_IF_FAILED(copy(homes_[to], tensor.replicas[homes_[to].first()] + each.begin, homes_[to],
                                            tensor.replicas[homes_[from].first()] + each.begin, homes_[from],
                                            each.bytes));
            }
        }
    }
    return {};
}

Status CudaDeviceTeam::copy_within_homes(const TeamTensor& tensor) {
    for (const Home& home : homes_) {
        const std::byte* const from = tensor.replicas[home.first()];
        for (const std::size_t replica : std::span(home.replicas).subspan(1)) {
            std::byte* const to = tensor.replicas[replica];
            // Replicas on one device can share their parameters. Then there is nothing to copy.
            if (to != from) {
                RUEDA_RETURN_IF_FAILED(copy(home, to, home, from, home, tensor.bytes()));
            }
        }
    }
    return {};
}

Status CudaDeviceTeam::join() {
    const std::lock_guard lock(mutex_);
    for (std::vector<DeviceEventPtr>& each : ready_) {
        std::fill(each.begin(), each.end(), nullptr);
    }
    // The memory of a replica may be in use in the stream of any home, so each replica waits for all homes. If this
    // fails for one replica, the other replicas must still wait, because the team may still use their memory.
    Status first = first_waits_for_others();
    auto end = homes_.front().device->record(homes_.front().stream);
    RUEDA_RETURN_IF_FAILED(end.status());
    for (const DeviceStream& replica : plan_.replicas) {
        const Status waits = end.value()->make_wait(replica);
        first = first.is_ok() ? waits : first;
    }
    return first;
}

}  // namespace rueda::collectives::cuda
