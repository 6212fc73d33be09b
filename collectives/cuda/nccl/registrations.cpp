// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/nccl/registrations.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

namespace rueda::collectives::cuda {

void Registrations::set_communicator(const NcclApi& nccl, NcclCommunicator communicator) {
    nccl_ = &nccl;
    communicator_ = communicator;
}

Result<bool> Registrations::is_work_done() { return last_end_ == nullptr ? Result<bool>(true) : last_end_->is_done(); }

Status Registrations::add(const DeviceMemoryPtr& memory) {
    const bool is_known = memory == nullptr || !memory->is_from_nccl ||
                          std::any_of(registered_.begin(), registered_.end(),
                                      [&](const Registered& one) { return one.memory == memory; });
    if (is_known) {
        return {};
    }
    const RelaxedCapture relaxed(device_.api());
    const ContextScope scope(device_.api(), device_.context());
    if (scope.error() != kCudaSuccess) {
        return device_.failure_of("cuCtxPushCurrent", scope.error());
    }
    void* handle = nullptr;
    const NcclResult result = nccl_->register_memory(communicator_, memory->begin, memory->bytes, &handle);
    if (result != kNcclSuccess) {
        return nccl_failure(*nccl_, "ncclCommRegister", result, communicator_, where_);
    }
    registered_.push_back({memory, handle});
    return {};
}

Status Registrations::remove(Which which) {
    const RelaxedCapture relaxed(device_.api());
    const ContextScope scope(device_.api(), device_.context());
    if (scope.error() != kCudaSuccess) {
        return device_.failure_of("cuCtxPushCurrent", scope.error());
    }
    for (std::size_t i = registered_.size(); i-- > 0;) {
        if (which == Which::given_back && !registered_[i].memory->is_given_back.load(std::memory_order_relaxed)) {
            continue;
        }
        const Registered one = std::move(registered_[i]);
        registered_.erase(registered_.begin() + static_cast<std::ptrdiff_t>(i));
        if (one.handle != nullptr) {
            const NcclResult result = nccl_->deregister_memory(communicator_, one.handle);
            if (result != kNcclSuccess) {
                return nccl_failure(*nccl_, "ncclCommDeregister", result, communicator_, where_);
            }
        }
    }
    return {};
}

Result<bool> Registrations::prepare(std::span<const TensorMemory> memory) {
    is_off_ = is_off_ || std::any_of(memory.begin(), memory.end(),
                                     [](const TensorMemory& one) { return one.use == NcclMemory::some; });
    const bool must_remove = std::any_of(registered_.begin(), registered_.end(), [this](const Registered& one) {
        return is_off_ || one.memory->is_given_back.load(std::memory_order_relaxed);
    });
    if (must_remove) {
        // The device may still use the registered memory for an earlier batch.
        const auto done = is_work_done();
        RUEDA_RETURN_IF_FAILED(done.status());
        if (done.value()) {
            RUEDA_RETURN_IF_FAILED(remove(is_off_ ? Which::all : Which::given_back));
        } else if (is_off_) {
            return false;
        }
    }
    for (const TensorMemory& one : memory) {
        if (one.use == NcclMemory::all && !is_off_) {
            RUEDA_RETURN_IF_FAILED(add(one.input));
            RUEDA_RETURN_IF_FAILED(add(one.output));
        }
    }
    return true;
}

void Registrations::end() noexcept try {
    const auto done = is_work_done();
    if (done.is_ok() && done.value() && !registered_.empty()) {
        static_cast<void>(remove(Which::all));
    }
} catch (...) {  // NOLINT(bugprone-empty-catch): NCCL ends the registrations with the communicator
}

/// Puts the memory into a list that is never freed. A leak checker does not report memory that such a list points to.
void Registrations::keep_for_ever() noexcept {
    struct Kept {
        std::vector<Registered> registered;
        Kept* next = nullptr;
    };
    static std::atomic<Kept*> first{nullptr};
    auto* const kept = registered_.empty() ? nullptr : new (std::nothrow) Kept{std::move(registered_)};
    if (kept != nullptr) {
        // Relaxed: nobody reads the list.
        kept->next = first.load(std::memory_order_relaxed);
        while (!first.compare_exchange_weak(kept->next, kept, std::memory_order_relaxed)) {
        }
    }
}

}  // namespace rueda::collectives::cuda
