// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/hosts/leader_connections.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "collectives/tcp/leader_rendezvous.hpp"
#include "core/diagnostics/stall_inquiry.hpp"
#include "core/hosts/host_tree.hpp"
#include "core/negotiation/tree_messages.hpp"

namespace rueda::core {

using collectives::LeaderRendezvous;
using collectives::LeaderTransport;
using collectives::LocalGroup;
using collectives::WantedLeaders;

namespace {

/// If this rank is a leader, returns its neighbours in the tree of hosts to which `transport` has no connection yet. A
/// connection exists on both of its ends, so two neighbours that have one both leave each other out. `transport` may be
/// null.
WantedLeaders wanted_leaders(const LocalGroup& group, const LeaderTransport* transport) {
    WantedLeaders wanted;
    if (!group.is_leader()) {
        return wanted;
    }
    const auto is_missing = [&](int rank) {
        return transport == nullptr || !transport->has_link(group.job_rank(rank));
    };
    const TreeShape shape = tree_of(group);
    const auto host = static_cast<std::uint32_t>(group.host_index);
    if (const auto parent = shape.parent(host)) {
        const int rank = *rank_of_host(group, *parent, 0);
        wanted.parent = is_missing(rank) ? std::optional(rank) : std::nullopt;
    }
    for (const std::uint32_t child : shape.children(host)) {
        const int rank = *rank_of_host(group, child, 0);
        if (is_missing(rank)) {
            wanted.children.push_back(rank);
        }
    }
    return wanted;
}

/// Returns the size of the longest message on a connection. A connection carries the messages of all sets, and no set
/// has more ranks than the job, so the size is computed for all ranks of the job.
std::size_t most_bytes_in_job(int ranks) {
    return std::max(most_message_bytes(static_cast<std::uint32_t>(ranks)), kMostStallMessageBytes);
}

}  // namespace

Result<LeaderConnections> connect_leaders(const base::Config& config, collectives::ControlPlane& control_plane,
                                          const LocalGroup& group, collectives::Transport* inner) {
    LeaderConnections connections;
    if (group.host_count == 1 || !config.leader_sockets || inner == nullptr) {
        return connections;
    }
    // If another host acknowledges nothing for this time, the connection ends. Normally, missing heartbeats show
    // earlier that the other host does not answer.
    const std::chrono::milliseconds silence(static_cast<std::int64_t>(config.host_timeout_seconds * 1e3) + 1000);
    Result<std::unique_ptr<LeaderTransport>> transport =
        LeaderTransport::create(*inner, silence, most_bytes_in_job(group.size), control_plane.shared_secret());
    collectives::LeaderRendezvousOptions options;
    options.job_secret = control_plane.shared_secret();
    options.most_bytes = most_bytes_in_job(group.size);
    options.cannot = transport.is_ok() ? "" : transport.status().message();
    Result<LeaderRendezvous> rendezvous = rendezvous_of_leaders(control_plane, wanted_leaders(group, nullptr), options);
    RUEDA_RETURN_IF_FAILED(rendezvous.status());
    connections.why_not = rendezvous.value().why_not;
    if (!connections.why_not.empty()) {
        return connections;
    }
    RUEDA_RETURN_IF_FAILED(transport.value()->add(0, std::move(rendezvous.value().leaders)));
    connections.transport = std::move(transport).value();
    return connections;
}

Status connect_leaders_of_set(LeaderTransport& transport, collectives::ControlPlane& control_plane,
                              const LocalGroup& group, std::uint32_t number) {
    collectives::LeaderRendezvousOptions options;
    options.most_bytes = transport.most_bytes();
    options.job_secret = transport.job_secret();
    Result<LeaderRendezvous> rendezvous =
        rendezvous_of_leaders(control_plane, wanted_leaders(group, &transport), options);
    RUEDA_RETURN_IF_FAILED(rendezvous.status());
    return rendezvous.value().why_not.empty() ? transport.add(number, std::move(rendezvous.value().leaders)) : Status();
}

}  // namespace rueda::core
