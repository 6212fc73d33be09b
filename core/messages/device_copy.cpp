// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/messages/device_copy.hpp"

#include <atomic>
#include <thread>
#include <utility>

namespace rueda::core {
Result<std::shared_ptr<DeviceCopy>> DeviceCopy::make(Direction direction, std::shared_ptr<const DeviceUse> use,
                                                     std::byte* tensor, std::uint64_t bytes) {
    auto memory = use->runtime->host_memory(use->stream.device, bytes);
    RUEDA_RETURN_IF_FAILED(memory.status());
    return std::make_shared<DeviceCopy>(direction, std::move(use), tensor, bytes, std::move(memory).value());
}

DeviceCopy::DeviceCopy(Direction direction, std::shared_ptr<const DeviceUse> use, std::byte* tensor,
                       std::uint64_t bytes, std::shared_ptr<std::byte> memory)
    : direction_(direction),
      use_(std::move(use)),
      tensor_(tensor),
      bytes_(bytes),
      memory_(std::make_unique<Kept>(Kept{std::move(memory)})) {}

DeviceCopy::~DeviceCopy() {
    if (is_in_use()) {
        // The device may still use this memory. So the memory is never given back, and no other message can get it.
        keep_for_ever(memory_.release());
    }
}

/// Puts the memory into a list that is never read. The list keeps the memory reachable, so that a leak checker does not
/// report it.
void DeviceCopy::keep_for_ever(Kept* kept) noexcept {
    static std::atomic<Kept*> first{nullptr};
    // Relaxed: nobody reads the list.
    kept->next = first.load(std::memory_order_relaxed);
    while (!first.compare_exchange_weak(kept->next, kept, std::memory_order_relaxed)) {
    }
}

Result<bool> DeviceCopy::step() {
    if (end_ == nullptr) {
        const bool leaves = direction_ == Direction::to_host;
        Result<bool> is_ready = use_->ready->is_done();
        if (!is_ready.is_ok() || (leaves && !is_ready.value())) {
            return is_ready;
        }
        // If the tensor is ready, the copy need not wait for the program's work. The last argument is then nullptr, so
        // the copy uses another stream than the copies that wait for that work.
        auto end = leaves ? use_->runtime->copy(device(), memory_->memory.get(), tensor_, bytes_, nullptr)
                          : use_->runtime->copy(device(), tensor_, memory_->memory.get(), bytes_,
                                                is_ready.value() ? nullptr : use_->ready);
        RUEDA_RETURN_IF_FAILED(end.status());
        end_ = std::move(end).value();
    }
    return end_->is_done();
}

/// Whether the device still uses the memory of this copy. After an error of the device, no work uses the memory any
/// more.
bool DeviceCopy::is_in_use() noexcept try {
    if (end_ == nullptr) {
        return false;
    }
    const Result<bool> done = end_->is_done();
    return done.is_ok() && !done.value();
} catch (...) {
    return true;  // There was no memory for the text of an error. The device may still use the memory of the copy.
}

void DeviceCopy::settle(std::chrono::steady_clock::time_point limit) noexcept {
    while (is_in_use() && std::chrono::steady_clock::now() < limit) {
        std::this_thread::yield();  // this thread polls, because the end of a copy wakes no thread
    }
}

}  // namespace rueda::core
