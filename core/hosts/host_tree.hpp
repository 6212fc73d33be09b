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
/// The neighbours of this host in the tree: the parent, if there is one, then the children.
[[nodiscard]] std::vector<std::uint32_t> neighbours_of(const collectives::LocalGroup& group);
/// The n-th rank of a host; empty if the host has fewer ranks.
[[nodiscard]] std::optional<int> rank_of_host(const collectives::LocalGroup& group, std::uint32_t host, int number);

/// The rank that speaks for a host when it ends: its second rank, because the leader may be the rank that has ended.
[[nodiscard]] inline bool is_deputy(const collectives::LocalGroup& group) { return group.local_rank == 1; }

/// Tells the leaders of the neighbouring hosts that the job has ended, and why. Waits a moment at most for the
/// notifications to be sent. They may still be read later, so their memory is never freed. Failures are ignored,
/// because there is nothing left to lose. After this nothing is asked of the transport.
void tell_neighbours(collectives::Transport& transport, const collectives::LocalGroup& group,
                     collectives::Transport::Channel channel, const Status& reason) noexcept;

}  // namespace rueda::core
