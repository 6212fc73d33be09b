// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "core/negotiation/tree_messages.hpp"

namespace rueda::core {

/// The tree of the hosts' leaders: host 0 is the root, host h has the children radix*h + 1 … radix*h + radix.
struct TreeShape {
    std::uint32_t hosts = 1;
    std::uint32_t radix = 8;

    [[nodiscard]] std::optional<std::uint32_t> parent(std::uint32_t host) const;
    [[nodiscard]] std::vector<std::uint32_t> children(std::uint32_t host) const;
};

/// One leader's part of the negotiation between hosts: gathers what its host and its children announce, passes it up
/// once its whole part of the tree has announced it, and passes the root's decisions down. On the root: decides.
/// Pure: no clock, no thread, no socket. docs/design/0002-several-hosts.md.
///
/// Threads: one at a time.
class TreeNode {
public:
    struct Options {
        std::uint32_t host = 0;
        TreeShape shape;
        std::vector<std::int32_t> host_of;  ///< by rank
        std::uint64_t fusion_threshold_bytes = 0;
        std::uint32_t batches_ahead = 2;  ///< the root decides no further batch while so many are not executed
    };
    explicit TreeNode(Options options);

    // ---- what this host's ranks do ----------------------------------------------------------------------------
    /// All its ranks have announced a tensor; not before the last decision on it was handed out.
    void announce(Announcement announcement);
    /// The host will announce the name by name the next time. It has nothing pending in it.
    void release(std::uint64_t id);
    void shut_down(std::int32_t rank);
    /// All its ranks have shut down.
    void close();
    /// Root: so many of the batches that next_decision() handed out are executed on this host.
    void executed(std::uint64_t batches);

    // ---- messages -----------------------------------------------------------------------------------------------
    /// From the parent or a child. Internal: what no working leader sends; the job has to end.
    [[nodiscard]] Status receive(std::uint32_t from_host, const TreeMessage& message);
    /// What is to be sent to a neighbour now, if anything; the caller asks when the last message to it has left.
    [[nodiscard]] std::optional<TreeMessage> next_message(std::uint32_t to_host);

    // ---- decisions ------------------------------------------------------------------------------------------------
    /// The next one for this host, in order. A batch's calls come together: once the first is handed out, so are the
    /// rest by further calls.
    [[nodiscard]] std::optional<Decision> next_decision();

    /// For the stall report: what this host (or its part of the tree) announced and the root has not decided on, with
    /// the hosts of this node's part of the tree that have not announced it.
    struct Pending {
        std::string name;  ///< "" without
        std::vector<std::uint32_t> missing_hosts;
    };
    [[nodiscard]] std::vector<Pending> pending() const;
};

}  // namespace rueda::core
