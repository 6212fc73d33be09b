// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/local_group.hpp"

namespace rueda::collectives {

/// Says which ranks run on which host, and which ranks are lanes (ranks that send and receive for their host). The
/// lanes of a host are its first ranks. Every host has as many lanes as the smallest host has ranks. All ranks have the
/// same values, except for the position of the calling rank. Threads: the object does not change, so any thread may
/// read it.
class Hosts {
public:
    explicit Hosts(const LocalGroup& group);

    [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(ranks_.size()); }
    [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(host_of_.size()); }
    [[nodiscard]] std::uint32_t lanes() const { return lanes_; }
    [[nodiscard]] std::uint32_t my_host() const { return my_host_; }
    [[nodiscard]] std::uint32_t my_rank() const { return my_rank_; }

    /// The ranks of a host in ascending order: element l is the rank with local rank l.
    [[nodiscard]] std::span<const std::uint32_t> ranks_of(std::uint32_t host) const { return ranks_[host]; }
    [[nodiscard]] std::uint32_t host_of(std::uint32_t rank) const { return host_of_[rank]; }
    [[nodiscard]] std::uint32_t local_of(std::uint32_t rank) const { return local_of_[rank]; }
    [[nodiscard]] bool is_here(std::uint32_t rank) const { return host_of_[rank] == my_host_; }

private:
    std::vector<std::vector<std::uint32_t>> ranks_;  // indexed by host
    std::vector<std::uint32_t> host_of_;             // indexed by rank
    std::vector<std::uint32_t> local_of_;            // indexed by rank
    std::uint32_t lanes_ = 1;
    std::uint32_t my_host_ = 0;
    std::uint32_t my_rank_ = 0;
};

}  // namespace rueda::collectives
