// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/host/tasks/host_set.hpp"

namespace rueda::collectives {

/// Whether the inputs of all members that are not absent travelled with their announcements.
[[nodiscard]] bool all_travelled(std::span<const Location> locations);

/// The segments of an allreduce whose inputs all travelled with the announcements. Each rank combines them by itself,
/// in rank order. Threads: as the task that it is part of.
class InlineSegments {
public:
    void clear() {
        segments_.clear();
        done_ = 0;
    }
    void add(std::uint32_t segment) { segments_.push_back(segment); }
    [[nodiscard]] bool is_done() const { return done_ == segments_.size(); }
    /// Combines some of them, up to the work of one step.
    void step(const Batch& batch, const HostSet& set);

private:
    std::vector<std::uint32_t> segments_;
    std::size_t done_ = 0;
};

}  // namespace rueda::collectives
