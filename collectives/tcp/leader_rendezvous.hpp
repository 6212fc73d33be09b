// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/tcp/leader_transport.hpp"

namespace rueda::collectives {

/// The leaders with which this rank needs a connection, as ranks of the control plane. Empty for a rank that is no
/// leader, or has these connections already.
struct WantedLeaders {
    std::optional<int> parent;  ///< The leader to which this rank connects.
    std::vector<int> children;  ///< The leaders that connect to this rank.
};

/// The sockets at which a leader listens, and their addresses as numeric texts with ports.
struct LeaderListener {
    std::vector<base::UniqueFd> sockets;
    std::vector<std::string> endpoints;
};
/// Listens at every network address of this host. The loopback's addresses come last. Link-local addresses are left
/// out, because they are valid only together with the name of a local interface.
[[nodiscard]] LeaderListener listen_at_all_addresses();

struct LeaderRendezvousOptions {
    /// How long a rank tries to connect. The limit is long enough for a busy host. If the network drops the packets,
    /// init() is delayed by this time.
    std::chrono::milliseconds time{8000};
    std::size_t most_bytes = std::size_t{64} << 20;  ///< the longest message that a connection accepts
    std::function<LeaderListener()> listen = listen_at_all_addresses;
    /// A secret that all ranks of the job know already, and that is not sent. Empty if the job has none.
    std::string job_secret = {};
    /// Empty if this rank can have connections. Otherwise the reason why it cannot; all ranks then get this reason.
    std::string cannot = {};
};

/// The connections of this rank. All rank numbers in this struct are ranks of the job.
struct LeaderRendezvous {
    std::vector<ConnectedLeader> leaders;
    /// Why the ranks have no connections; empty if they have connections. The text is the same on all ranks. If one
    /// rank could not connect, no rank keeps a connection.
    std::string why_not;
};

/// Lets the leaders of a group connect to each other over TCP. All ranks of the plane must call this function. Over the
/// plane, the leaders exchange their addresses, and rank 0 sends a random number that it has just made. Both sides of
/// each connection prove that they know the secret of this call (base::Handshake). The secret is derived from
/// LeaderRendezvousOptions::job_secret and the random number. If the job has no secret, the random number itself is the
/// secret. Whoever can read the messages of the plane then knows the secret. If this function fails, the plane has
/// failed.
[[nodiscard]] Result<LeaderRendezvous> rendezvous_of_leaders(
    ControlPlane& plane, const WantedLeaders& wanted,
    const LeaderRendezvousOptions& options = LeaderRendezvousOptions());

/// What each rank tells the others before they connect.
struct LeaderCard {
    std::string random;  ///< the random number for rendezvous_of_leaders(); only rank 0 sends one
    std::vector<std::string> endpoints;
};
[[nodiscard]] Bytes encode(const LeaderCard& card);
/// Parses and checks the bytes that another process sent.
[[nodiscard]] Result<LeaderCard> parse_leader_card(std::span<const std::byte> bytes);

}  // namespace rueda::collectives
