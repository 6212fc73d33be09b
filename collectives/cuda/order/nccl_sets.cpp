// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/order/nccl_sets.hpp"

#include <algorithm>

namespace rueda::collectives::cuda {

NcclSets::Others NcclSets::add(const Use& use, bool expects_others) {
    const std::scoped_lock lock(mutex_);
    Others others{.any = expects_others};
    for (const Entry& entry : entries_) {
        if (are_related(entry.use, use)) {
            others.any = true;
            if (!entry.has_order) {
                others.without_order = entry.use.set;
            }
        }
    }
    std::erase_if(entries_, [&use](const Entry& entry) { return entry.use.owner == use.owner; });
    entries_.push_back({.use = use, .has_order = others.any});
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

void NcclSets::remove(const void* owner) noexcept {
    const std::scoped_lock lock(mutex_);
    std::erase_if(entries_, [owner](const Entry& entry) { return entry.use.owner == owner; });
}

}  // namespace rueda::collectives::cuda
