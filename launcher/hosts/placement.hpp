// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "launcher/hosts/hosts.hpp"

namespace rueda::launcher {

/// Consecutive ranks on one host. The first share begins with rank 0, each other share after the one before.
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
/// The number of ranks on the host that has most.
[[nodiscard]] int most_ranks_on_a_host(const Placement& placement);
[[nodiscard]] bool all_are_equal(const std::vector<HostShare>& shares);

/// Fills the hosts in their order, so that ranks with neighbouring numbers are on one host. `ranks` and `per_host` are
/// the user's options; without them every slot gets a rank. If no host tells its slots, the ranks are spread evenly. An
/// InvalidArgument says what does not fit.
[[nodiscard]] Result<Placement> place_ranks(const HostList& list, std::optional<int> ranks,
                                            std::optional<int> per_host);

}  // namespace rueda::launcher
