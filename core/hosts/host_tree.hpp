// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.hpp"
#include "collectives/local_group.hpp"
#include "collectives/transport.hpp"
#include "core/negotiation/tree_node.hpp"

namespace rueda::core {

/// The tree of the job's hosts.
[[nodiscard]] TreeShape tree_of(const collectives::LocalGroup& group);
/// The hosts beside this one in it: the parent, where there is one, then the children.
[[nodiscard]] std::vector<std::uint32_t> neighbours_of(const collectives::LocalGroup& group);
/// The n-th rank of a host; none: it has fewer.
[[nodiscard]] std::optional<int> rank_of_host(const collectives::LocalGroup& group, std::uint32_t host, int number);

/// Who speaks for a host that ends, where its leader may be what has ended: its second rank.
[[nodiscard]] inline bool is_deputy(const collectives::LocalGroup& group) { return group.local_rank == 1; }

/// Tells the leaders of the neighbouring hosts that the job has ended, and why. Waits for the words to leave, for a
/// moment at most; they may still be read later, and stay in memory for good. Failures are ignored: there is nothing
/// left to lose. The last thing that is asked of the transport.
void tell_neighbours(collectives::Transport& transport, const collectives::LocalGroup& group,
                     collectives::Transport::Channel channel, const Status& reason) noexcept;

}  // namespace rueda::core
