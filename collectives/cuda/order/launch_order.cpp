// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/order/launch_order.hpp"

#include <algorithm>

namespace rueda::collectives::cuda {

std::uint64_t LaunchOrder::enter(const void* owner, int device, std::int32_t set) {
    const std::scoped_lock lock(mutex_);
    entries_.push_back({.owner = owner, .device = device, .set = set, .number = highest_ + 1, .is_agreed = false});
    return ++highest_;
}

void LaunchOrder::agree(const void* owner, std::uint64_t number) {
    const std::scoped_lock lock(mutex_);
    highest_ = std::max(highest_, number);
    for (Entry& entry : entries_) {
        if (entry.owner == owner) {
            entry.number = number;
            entry.is_agreed = true;
        }
    }
}

std::optional<std::int32_t> LaunchOrder::awaited(const void* owner) const {
    const std::scoped_lock lock(mutex_);
    const auto own =
        std::find_if(entries_.begin(), entries_.end(), [owner](const Entry& entry) { return entry.owner == owner; });
    if (own == entries_.end()) {
        return std::nullopt;
    }
    auto first = own;
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
        if (entry->device == own->device && precedes(*entry, *first)) {
            first = entry;
        }
    }
    return first == own && own->is_agreed ? std::nullopt : std::optional(first->set);
}

void LaunchOrder::leave(const void* owner) noexcept {
    const std::scoped_lock lock(mutex_);
    std::erase_if(entries_, [owner](const Entry& entry) { return entry.owner == owner; });
}

}  // namespace rueda::collectives::cuda
