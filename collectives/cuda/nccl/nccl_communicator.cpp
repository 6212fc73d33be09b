// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/nccl/nccl_communicator.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace rueda::collectives::cuda {
namespace {

using namespace std::chrono_literals;

/// How long the destructor of a communicator sleeps before it asks NCCL again.
constexpr auto kEndPause = 200us;

/// Returns the FNV-1a hash of a text. It is the same on all hosts, which std::hash does not promise.
std::uint64_t number_of_text(std::string_view text) {
    std::uint64_t number = 0xcbf29ce484222325;
    for (const char c : text) {
        number = (number ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
    return number;
}

std::uint64_t random_number() {
    std::uint64_t number = 0;
    // Without random bytes, processes are distinguished only by pid and host. This is not enough in containers.
    return ::getrandom(&number, sizeof(number), 0) == sizeof(number) ? number : 0;
}

}  // namespace

ProcessIdentity identity_of_this_process() {
    static const std::uint64_t random = random_number();
    std::string boot_id;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
    const char* const shares =
        std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");  // NOLINT(concurrency-mt-unsafe): Rueda sets no variables
    // The pid distinguishes a forked process from its parent.
    return {.host = number_of_text(boot_id),
            .process = random + static_cast<std::uint64_t>(::getpid()),
            .shares_device = shares != nullptr && std::string_view(shares) == "1"};
}

NcclDeviceCommunicator::NcclDeviceCommunicator(std::shared_ptr<Device> device,
                                               Result<std::shared_ptr<const LoadedNccl>> nccl, std::uint32_t member,
                                               std::uint32_t members, std::int32_t rank, std::optional<NcclUniqueId> id)
    : device_(std::move(device)),
      nccl_(std::move(nccl)),
      where_{member, members, device_->ordinal(), rank},
      id_(id),
      task_(*device_, where_) {}

void NcclDeviceCommunicator::describe(Participant& own) {
    own.has_kernels = device_->kernels().load().is_ok();
    if (!nccl_.is_ok()) {
        own.refusal = nccl_.status().message();
        return;
    }
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment of a running job
    if (const char* const blocking = std::getenv("NCCL_COMM_BLOCKING"); blocking != nullptr && *blocking != '0') {
        own.refusal = "NCCL_COMM_BLOCKING is set, so NCCL would block the thread that notices failures; leave it unset";
        return;
    }
    const LoadedNccl& nccl = *nccl_.value();
    own.nccl_version = nccl.version;
    if (where_.member != 0) {
        return;
    }
    if (!id_) {
        NcclUniqueId id{};
        const NcclResult result = nccl.api.get_unique_id(&id);
        if (result != kNcclSuccess) {
            own.refusal = nccl_failure(nccl.api, "ncclGetUniqueId", result, nullptr, where_).message();
            return;
        }
        id_ = id;
    }
    own.id = *id_;
    own.has_id = true;
}

void NcclDeviceCommunicator::connect(const NcclUniqueId& id, Packing packing) {
    failure_ = begin_to_connect(id, packing);
}

Status NcclDeviceCommunicator::begin_to_connect(const NcclUniqueId& id, Packing packing) {
    RUEDA_RETURN_IF_FAILED(device_->stream().status());
    const NcclApi& api = nccl_.value()->api;
    const RelaxedCapture relaxed(device_->api());
    const ContextScope scope(device_->api(), device_->context());
    if (scope.error() != kCudaSuccess) {
        return device_->failure_of("cuCtxPushCurrent", scope.error());
    }
    NcclConfig config;
    config.blocking = 0;
    const NcclResult result =
        api.init_rank(&communicator_, static_cast<int>(where_.members), id, static_cast<int>(where_.member), &config);
    if (!was_accepted(result) || communicator_ == nullptr) {
        return nccl_failure(api, "ncclCommInitRankConfig", result, communicator_, where_);
    }
    task_.set_communicator(api, communicator_, packing);
    return {};
}

Result<bool> NcclDeviceCommunicator::is_busy() {
    return is_in_progress(nccl_.value()->api, communicator_,
                          is_connected_ ? "an operation of NCCL" : "ncclCommInitRankConfig", where_);
}

Result<bool> NcclDeviceCommunicator::is_connected() {
    RUEDA_RETURN_IF_FAILED(failure_);
    if (!is_connected_) {
        if (communicator_ == nullptr) {
            return false;
        }
        const auto busy = is_busy();
        failure_ = busy.status();
        RUEDA_RETURN_IF_FAILED(failure_);
        is_connected_ = !busy.value();
    }
    return is_connected_;
}

Status NcclDeviceCommunicator::check(Operation operation, const Segment& segment) const {
    return is_reduction(operation) ? plan_reduction(segment, where_.members).status() : Status();
}

Task& NcclDeviceCommunicator::start(const DeviceBatch& batch) {
    task_.begin(batch);
    return task_;
}

Status NcclDeviceCommunicator::failed() {
    if (failure_.is_ok()) {
        failure_ = task_.failed();
    }
    if (failure_.is_ok() && communicator_ != nullptr) {
        failure_ = is_busy().status();
    }
    return failure_;
}

void NcclDeviceCommunicator::abort() noexcept {
    task_.abandon();
    if (communicator_ != nullptr) {
        abort_ = start_abort(nccl_.value(), communicator_);
        communicator_ = nullptr;
    }
}

/// Ends the communicator without aborting its work. Returns false if the other members do not come in time.
bool NcclDeviceCommunicator::finalize() noexcept {
    const NcclApi& api = nccl_.value()->api;
    task_.registrations().end();
    const ContextScope scope(device_->api(), device_->context());
    if (!was_accepted(api.finalize(communicator_))) {
        return false;
    }
    const auto end = std::chrono::steady_clock::now() + kEndLimit;
    for (;;) {
        NcclResult state = kNcclSuccess;
        if (api.get_async_error(communicator_, &state) != kNcclSuccess || !was_accepted(state)) {
            return false;
        }
        if (state == kNcclSuccess) {
            break;
        }
        if (std::chrono::steady_clock::now() >= end) {
            return false;
        }
        std::this_thread::sleep_for(kEndPause);  // NCCL wakes nobody
    }
    static_cast<void>(api.destroy(communicator_));
    communicator_ = nullptr;
    return true;
}

NcclDeviceCommunicator::~NcclDeviceCommunicator() {
    const bool is_fine = communicator_ != nullptr && is_connected_ && task_.is_idle() && failed().is_ok();
    if (!is_fine || !finalize()) {
        abort();
    }
    if (abort_ != nullptr && !wait_for_abort(*abort_, kAbortLimit)) {
        task_.registrations().keep_for_ever();
    }
}

}  // namespace rueda::collectives::cuda
