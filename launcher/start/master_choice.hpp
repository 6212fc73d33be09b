// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/network/poll_set.hpp"

namespace rueda::launcher {

/// Chooses the address at which the other hosts can reach rank 0's host (MASTER_ADDR). ruedarun asks one supervisor of
/// each other host to try all addresses of rank 0's host (connection/reachability.hpp), and this class collects the
/// answers. Threads: only one thread may use an object.
class MasterChoice {
public:
    /// How long ruedarun waits for the answers. A supervisor gives up earlier than this.
    static constexpr std::chrono::milliseconds kLongest{3000};

    /// `ranks`: the ranks whose supervisors were asked.
    MasterChoice(std::vector<std::string> endpoints, std::set<int> ranks, base::PollSet::TimePoint now)
        : endpoints_(std::move(endpoints)), asked_(std::move(ranks)), deadline_(now + kLongest) {}

    /// Takes the answer of a rank's supervisor. Answers of ranks that were not asked are ignored.
    void take(int rank, std::string_view answer);
    /// Whether all answers are there, or the time for them is over.
    [[nodiscard]] bool is_complete(base::PollSet::TimePoint now) const {
        return answers_.size() == asked_.size() || now >= deadline_;
    }
    [[nodiscard]] base::PollSet::TimePoint deadline() const { return deadline_; }
    /// Returns the address that the largest number of hosts has reached. If equally many hosts have reached several
    /// addresses, returns `usual` if it is one of these addresses, and otherwise the first of them. If no host has
    /// reached any address, returns `usual`.
    [[nodiscard]] std::string address(const std::string& usual) const;

private:
    const std::vector<std::string> endpoints_;
    const std::set<int> asked_;
    const base::PollSet::TimePoint deadline_;
    std::map<int, std::vector<std::string>> answers_;
};

}  // namespace rueda::launcher
