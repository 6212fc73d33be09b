// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "launcher/hosts/hosts.hpp"

namespace rueda::launcher {

/// Consecutive ranks on one host: the first share has ranks 0 … ranks−1, the next one those after it.
struct HostShare {
    std::string host;
    int ranks = 0;

    friend bool operator==(const HostShare&, const HostShare&) = default;
};

/// Which ranks run where.
struct Placement {
    std::vector<HostShare> shares;  ///< hosts that get no rank are left out
    std::string reason;             ///< for --explain
};

[[nodiscard]] int ranks_of(const Placement& placement);
/// Of the host that has most.
[[nodiscard]] int most_ranks_on_a_host(const Placement& placement);
[[nodiscard]] bool all_are_equal(const std::vector<HostShare>& shares);

/// Hosts are filled in their order, so that neighbours in rank are neighbours on a host. `ranks` and `per_host` are
/// what the user said; without either, every slot gets a rank. Where no host says how many slots it has, the ranks are
/// spread evenly. InvalidArgument says what does not fit.
[[nodiscard]] Result<Placement> place_ranks(const HostList& list, std::optional<int> ranks,
                                            std::optional<int> per_host);

}  // namespace rueda::launcher
