// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/order/nccl_sets.hpp"

#include <algorithm>

namespace rueda::collectives::cuda {

NcclSets::Others NcclSets::add(const Use& use, bool expects_others) {
    const std::scoped_lock lock(mutex_);
    Others others{.any = expects_others};
    for (Entry& entry : entries_) {
        if (are_related(entry.use, use)) {
            others.any = true;
            if (!entry.has_order) {
                others.without_order = entry.use.set;
                entry.is_asked = true;
            }
        }
    }
    std::erase_if(entries_, [&use](const Entry& entry) { return entry.use.owner == use.owner; });
    entries_.push_back({.use = use, .has_order = others.any, .is_asked = false});
    return others;
}

void NcclSets::decide(const void* owner, bool has_order) {
    const std::scoped_lock lock(mutex_);
    for (Entry& entry : entries_) {
        if (entry.use.owner == owner) {
            entry.has_order = has_order;
        }
    }
}

bool NcclSets::is_asked(const void* owner) {
    const std::scoped_lock lock(mutex_);
    return std::any_of(entries_.begin(), entries_.end(),
                       [owner](const Entry& entry) { return entry.use.owner == owner && entry.is_asked; });
}

void NcclSets::remove(const void* owner) noexcept {
    const std::scoped_lock lock(mutex_);
    std::erase_if(entries_, [owner](const Entry& entry) { return entry.use.owner == owner; });
}

}  // namespace rueda::collectives::cuda
