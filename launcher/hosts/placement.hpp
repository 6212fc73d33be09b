// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "launcher/hosts/hosts.hpp"

namespace rueda::launcher {

/// A share: consecutive ranks on one host. The first share begins with rank 0, and each later share begins where the
/// preceding share ends.
struct HostShare {
    std::string host;
    int ranks = 0;

    friend bool operator==(const HostShare&, const HostShare&) = default;
};

/// Which ranks run where.
struct Placement {
    std::vector<HostShare> shares;  ///< the shares of the hosts; hosts that get no ranks are left out
    std::string reason;             ///< the reason for this placement, for --explain
};

[[nodiscard]] int ranks_of(const Placement& placement);
/// The largest number of ranks on one host.
[[nodiscard]] int most_ranks_on_a_host(const Placement& placement);
[[nodiscard]] bool all_are_equal(const std::vector<HostShare>& shares);

/// Fills the hosts in their order, so that consecutive ranks are on the same host. `ranks` and `per_host` are the
/// user's options. Without them, every slot gets a rank. If no host has a number of slots, the ranks are divided
/// equally. Fails with InvalidArgument if the numbers contradict each other.
[[nodiscard]] Result<Placement> place_ranks(const HostList& list, std::optional<int> ranks,
                                            std::optional<int> per_host);

}  // namespace rueda::launcher
