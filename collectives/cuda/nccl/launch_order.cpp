// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/nccl/launch_order.hpp"

#include <algorithm>

namespace rueda::collectives::cuda {

std::uint64_t LaunchOrder::enter(const void* owner, std::uint64_t key) {
    const std::scoped_lock lock(mutex_);
    entries_.push_back({.owner = owner, .key = key, .number = highest_ + 1, .is_agreed = false});
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

bool LaunchOrder::is_next(const void* owner) const {
    const std::scoped_lock lock(mutex_);
    const auto first = std::min_element(entries_.begin(), entries_.end(), &LaunchOrder::precedes);
    return first != entries_.end() && first->owner == owner && first->is_agreed;
}

void LaunchOrder::leave(const void* owner) noexcept {
    const std::scoped_lock lock(mutex_);
    std::erase_if(entries_, [owner](const Entry& entry) { return entry.owner == owner; });
}

}  // namespace rueda::collectives::cuda
