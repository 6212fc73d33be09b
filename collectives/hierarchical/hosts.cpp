// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/hosts.hpp"

#include <algorithm>

namespace rueda::collectives {

Hosts::Hosts(const LocalGroup& group)
    : ranks_(static_cast<std::size_t>(group.host_count)),
      my_host_(static_cast<std::uint32_t>(group.host_index)),
      my_rank_(static_cast<std::uint32_t>(group.rank)) {
    for (std::uint32_t rank = 0; rank < group.host_of.size(); ++rank) {
        const auto host = static_cast<std::uint32_t>(group.host_of[rank]);
        host_of_.push_back(host);
        local_of_.push_back(static_cast<std::uint32_t>(ranks_[host].size()));
        ranks_[host].push_back(rank);
    }
    const auto smallest = std::min_element(ranks_.begin(), ranks_.end(),
                                           [](const auto& a, const auto& b) { return a.size() < b.size(); });
    lanes_ = static_cast<std::uint32_t>(smallest->size());
}

}  // namespace rueda::collectives
