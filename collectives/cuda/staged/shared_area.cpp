// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/staged/shared_area.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace rueda::collectives::cuda {
namespace {

constexpr std::size_t kAreaPage = 4096;
/// How long the destructor of an area waits for the device, and how long it sleeps before it asks the driver again.
constexpr std::chrono::milliseconds kIdleLimit{1000};
constexpr std::chrono::microseconds kIdlePause{50};

/// Waits, for a limited time, until the device has ended all work that Rueda has given to it. Returns whether the
/// device has ended this work. Nothing wakes a thread at the end of this work, so the thread sleeps and asks again.
bool becomes_idle(Device& device, const void* owner) {
    const auto limit = std::chrono::steady_clock::now() + kIdleLimit;
    std::vector<DeviceEventPtr> events;
    bool is_recorded = false;
    for (;;) {
        const bool is_late = std::chrono::steady_clock::now() >= limit;
        if (!is_recorded) {
            const auto recorded = device.record_all(owner, events);
            if (!recorded.is_ok()) {
                return false;
            }
            is_recorded = recorded.value();
        }
        if (is_recorded && std::all_of(events.begin(), events.end(), [](const DeviceEventPtr& event) {
                const auto done = event->is_done();
                return done.is_ok() && done.value();
            })) {
            return true;
        }
        if (is_late) {
            return false;
        }
        std::this_thread::sleep_for(kIdlePause);
    }
}

}  // namespace

SharedArea::SharedArea(std::shared_ptr<StagingDevice> device, std::shared_ptr<SharedMemory> memory,
                       std::uint32_t member, std::uint32_t members, std::size_t block_bytes, std::size_t blocks)
    : device_(std::move(device)),
      memory_(std::move(memory)),
      member_(member),
      members_(members),
      block_bytes_((block_bytes + kAreaPage - 1) / kAreaPage * kAreaPage),
      blocks_(blocks) {}

bool SharedArea::pin(std::byte* memory) const {
    const Device& device = device_->device();
    const RelaxedCapture relaxed(device.api());
    const ContextScope scope(device.api(), device.context());
    return scope.error() == kCudaSuccess &&
           device.api().host_register(memory, bytes(), kRegisterPortable) == kCudaSuccess;
}

bool SharedArea::unpin() const noexcept {
    const Device& device = device_->device();
    const RelaxedCapture relaxed(device.api());
    const ContextScope scope(device.api(), device.context());
    return scope.error() == kCudaSuccess && device.api().host_unregister(own_) == kCudaSuccess;
}

/// If there is not enough memory for an area, or if the driver cannot pin it, this member has no area. The pieces then
/// go through the pinned memory of StagingDevice.
void SharedArea::allocate() {
    if (std::exchange(was_asked_, true)) {
        return;
    }
    const auto block = memory_->allocate(bytes());
    if (!block.is_ok()) {
        return;
    }
    if (!pin(block.value().memory)) {
        memory_->deallocate(block.value().memory);
        return;
    }
    own_ = block.value().memory;
    place_ = block.value().offset + 1;
    // A relaxed store is enough. The members tell each other the places of their areas after this store, and read a
    // counter only when they know its place.
    header_of(own_).copied_in.store(0, std::memory_order_relaxed);
}

void SharedArea::connect(std::span<const std::uint64_t> places) {
    is_connected_ = true;
    for (std::uint32_t member = 0; member < members_; ++member) {
        std::byte* const area = places[member] == 0 ? nullptr
                                : member == member_ ? own_
                                                    : memory_->of_member(member, places[member] - 1, bytes());
        if (area == nullptr || reinterpret_cast<std::uintptr_t>(area) % alignof(Header) != 0) {
            areas_.clear();
            return;
        }
        areas_.push_back(area);
    }
}

std::byte* SharedArea::block(std::uint32_t member, std::uint64_t number) const {
    return areas_[member] + kHeaderBytes + (number % blocks_) * block_bytes_;
}

void SharedArea::publish(std::uint64_t number) { header_of(own_).copied_in.store(number, std::memory_order_release); }

bool SharedArea::is_ready(std::uint64_t number) const {
    return std::all_of(areas_.begin(), areas_.end(), [number](std::byte* area) {
        return header_of(area).copied_in.load(std::memory_order_acquire) >= number;
    });
}

/// The driver may wait for all work of the device when it unpins memory, and a kernel of NCCL may wait for another
/// rank. So the memory is unpinned only if the device has no work of Rueda. Otherwise it stays pinned and mapped.
SharedArea::~SharedArea() {
    if (own_ == nullptr) {
        return;
    }
    try {
        if (!is_left_ && becomes_idle(device_->device(), this) && unpin()) {
            memory_->deallocate(own_);
            return;
        }
    } catch (...) {  // NOLINT(bugprone-empty-catch): without memory for an event, the area stays as it is
    }
    memory_->keep_mapped(own_);
}

}  // namespace rueda::collectives::cuda
