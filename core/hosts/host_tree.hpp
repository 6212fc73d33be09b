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

/// The tree of the job's hosts, in which the leaders exchange messages.
[[nodiscard]] TreeShape tree_of(const collectives::LocalGroup& group);
/// The neighbours of this host in the tree: the parent, if there is one, and then the children.
[[nodiscard]] std::vector<std::uint32_t> neighbours_of(const collectives::LocalGroup& group);
/// Returns the n-th rank of a host. Empty if the host has fewer ranks.
[[nodiscard]] std::optional<int> rank_of_host(const collectives::LocalGroup& group, std::uint32_t host, int number);

/// Whether this rank is the host's deputy, its second rank. The deputy reports the end of the job to other hosts too,
/// because the leader may be the rank that has died.
[[nodiscard]] inline bool is_deputy(const collectives::LocalGroup& group) { return group.local_rank == 1; }

/// Sends the reason of the job's end to the leaders of the neighbouring hosts. Waits only briefly for the sends. The
/// transport may still read the messages after this function has returned, so their memory is never freed. Failures are
/// ignored, because the job has ended anyway. The transport must not be used after this call.
void tell_neighbours(collectives::Transport& transport, const collectives::LocalGroup& group,
                     collectives::Transport::Channel channel, const Status& reason) noexcept;

}  // namespace rueda::core
