// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/plugin/cuda_runtime.hpp"

#include <fmt/format.h>

#include <utility>

#include "collectives/cuda/load_cuda.hpp"
#include "collectives/cuda/memory/pinned_memory.hpp"

namespace rueda::collectives::cuda {

Result<std::shared_ptr<StagingDevice>> CudaDeviceRuntime::device(int ordinal) {
    const std::scoped_lock lock(mutex_);
    if (const auto found = devices_.find(ordinal); found != devices_.end()) {
        return found->second;
    }
    auto opened = Device::open(parts_.cuda, ordinal, parts_.kernels);
    RUEDA_RETURN_IF_FAILED(opened.status());
    return devices_.emplace(ordinal, std::make_shared<StagingDevice>(std::move(opened).value())).first->second;
}

std::shared_ptr<IpcDevice> CudaDeviceRuntime::ipc_device(const StagingDevice& device) {
    const std::scoped_lock lock(mutex_);
    std::shared_ptr<IpcDevice>& found = ipc_devices_[device.device().ordinal()];
    if (found == nullptr) {
        found = std::make_shared<IpcDevice>(device.shared_device(), parts_.identity.process);
    }
    return found;
}

void CudaDeviceRuntime::note(const std::string& text) const {
    if (parts_.note && !text.empty()) {
        parts_.note(text);
    }
}

Result<std::shared_ptr<const LoadedNccl>> CudaDeviceRuntime::nccl() {
    const std::scoped_lock lock(nccl_mutex_);
    if (!nccl_) {
        auto loaded = parts_.load_nccl();
        if (loaded.is_ok()) {
            nccl_.emplace(std::make_shared<const LoadedNccl>(std::move(loaded).value()));
            const LoadedNccl& used = *nccl_->value();
            note(fmt::format("GPUs use NCCL {} ('{}')", name_of_nccl_version(used.version), used.path));
            if (parts_.warn && !used.notice.empty()) {
                parts_.warn(used.notice);  // a warning, so that the user sees it at the default log level
            }
        } else {
            nccl_.emplace(loaded.status());
        }
    }
    return *nccl_;
}

void CudaDeviceRuntime::prepare_nccl_id() {
    const auto loaded = nccl();
    NcclUniqueId id{};
    // If there is no identifier, the communicator itself asks NCCL for one. If that fails, the communicator's offer
    // says why.
    if (loaded.is_ok() && loaded.value()->api.get_unique_id(&id) == kNcclSuccess) {
        const std::scoped_lock lock(ids_mutex_);
        ids_.push_back(id);
    }
}

std::optional<NcclUniqueId> CudaDeviceRuntime::take_nccl_id() {
    const std::scoped_lock lock(ids_mutex_);
    if (ids_.empty()) {
        return std::nullopt;
    }
    const NcclUniqueId id = ids_.back();
    ids_.pop_back();
    return id;
}

Result<DeviceEventPtr> CudaDeviceRuntime::record(DeviceStream stream) {
    auto found = device(stream.device);
    RUEDA_RETURN_IF_FAILED(found.status());
    memory_->free_unused();
    auto* const cuda_stream = static_cast<CudaStream>(stream.stream);
    Device& device = found.value()->device();
    RUEDA_RETURN_IF_FAILED(device.check_not_capturing(cuda_stream, "start an operation"));
    // The first operation on a device compiles the kernels here, in the program's thread. This can take seconds. The
    // thread that drives progress must not wait for so long, because it notices the death of other ranks. If the
    // kernels cannot be compiled, the operations work without kernels.
    static_cast<void>(device.kernels().load([this](const std::string& text) { note(text); }));
    return device.record(cuda_stream);
}

Result<std::unique_ptr<DeviceCommunicator>> CudaDeviceRuntime::make_communicator(const DeviceSet& set,
                                                                                 Communicator& host) {
    auto found = device(set.device);
    RUEDA_RETURN_IF_FAILED(found.status());
    SetCommunicator::Parts parts{.staging = found.value(),
                                 .ipc = ipc_device(*found.value()),
                                 .nccl = nullptr,
                                 .sets = sets_,
                                 .order = order_,
                                 .identity = parts_.identity,
                                 .note = parts_.note,
                                 .warn = parts_.warn,
                                 .piece_bytes = parts_.piece_bytes,
                                 .ipc_sizes = parts_.ipc_sizes,
                                 .order_interval = parts_.order_interval};
    if (allows_nccl(set.path)) {
        auto device = parts.staging->shared_device();
        const auto rank = SetCommunicator::rank_of(set, set.member);
        auto id = set.member == 0 ? take_nccl_id() : std::nullopt;
        parts.nccl =
            std::make_unique<NcclDeviceCommunicator>(std::move(device), nccl(), set.member, set.members, rank, id);
    }
    return std::unique_ptr<DeviceCommunicator>(std::make_unique<SetCommunicator>(std::move(parts), set, host));
}

Result<std::shared_ptr<std::byte>> CudaDeviceRuntime::host_memory(std::int32_t ordinal, std::size_t bytes) {
    auto found = device(ordinal);
    RUEDA_RETURN_IF_FAILED(found.status());
    auto taken = found.value()->take(bytes);
    RUEDA_RETURN_IF_FAILED(taken.status());
    return std::shared_ptr<std::byte>(taken.value().memory, [staging = found.value(), block = taken.value()](
                                                                std::byte* /*memory*/) { staging->give_back(block); });
}

Result<DeviceEventPtr> CudaDeviceRuntime::copy(std::int32_t ordinal, std::byte* to, const std::byte* from,
                                               std::size_t bytes, const DeviceEventPtr& after) {
    auto found = device(ordinal);
    RUEDA_RETURN_IF_FAILED(found.status());
    return found.value()->copy(to, from, bytes, after);
}

Result<std::byte*> CudaDeviceRuntime::allocate(std::int32_t ordinal, std::size_t bytes, DevicePath path) {
    auto found = device(ordinal);
    RUEDA_RETURN_IF_FAILED(found.status());
    std::shared_ptr<const LoadedNccl> from;
    if (allows_nccl(path)) {
        const auto loaded = nccl();
        from = loaded.is_ok() ? loaded.value() : nullptr;
    }
    return memory_->allocate(found.value()->shared_device(), bytes, std::move(from));
}

Result<std::unique_ptr<PinnedMemory>> CudaDeviceRuntime::pin(std::int32_t ordinal, std::byte* memory,
                                                             std::size_t bytes) {
    auto found = device(ordinal);
    RUEDA_RETURN_IF_FAILED(found.status());
    return RegisteredMemory::pin(found.value()->shared_device(), memory, bytes);
}

Result<std::unique_ptr<DeviceTeam>> CudaDeviceRuntime::make_team(DeviceTeamPlan plan) {
    std::vector<std::shared_ptr<StagingDevice>> devices;
    for (const DeviceStream& replica : plan.replicas) {
        auto found = device(replica.device);
        RUEDA_RETURN_IF_FAILED(found.status());
        const Status& kernels = found.value()->device().kernels().load([this](const std::string& text) { note(text); });
        if (!kernels.is_ok()) {
            return failure(ErrorCode::unsupported,
                           "replicas on GPUs need Rueda's kernels, which GPU {} does not have: {}", replica.device,
                           kernels.message());
        }
        devices.push_back(std::move(found).value());
    }
    memory_->free_unused();
    return CudaDeviceTeam::make(
        std::move(plan), devices, memory_, [this](const std::string& text) { note(text); }, parts_.team_divided_bytes);
}

Result<std::unique_ptr<DeviceRuntime>> open_cuda_runtime(const DeviceRuntimeOptions& options) {
    auto cuda = load_cuda();
    RUEDA_RETURN_IF_FAILED(cuda.status());
    return std::unique_ptr<DeviceRuntime>(std::make_unique<CudaDeviceRuntime>(CudaDeviceRuntime::Parts{
        .cuda = cuda.value(),
        .load_nccl = [setting = options.nccl_library] { return load_nccl(search_of_this_process(setting)); },
        .note = options.note,
        .warn = options.warn,
        .identity = identity_of_this_process()}));
}

}  // namespace rueda::collectives::cuda
