// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.hpp"
#include "collectives/mpi/mpi_api.hpp"

namespace rueda::collectives {

/// The tag of a rendezvous' messages, and of the call that then creates the communicator. The MPI standard guarantees
/// tags up to 32767, and programs usually count their own tags from 0.
inline constexpr int kRendezvousTag = 31007;

/// How long the other members still wait for the verdict after the lowest member's time limit. They wait because only
/// the lowest member knows which members are missing.
inline constexpr std::chrono::milliseconds kRendezvousGrace{2000};

using RendezvousTime = std::chrono::steady_clock::time_point;

/// The members of a new job, from the point of view of one member.
struct RendezvousPlan {
    MPI_Comm communicator = MPI_COMM_WORLD;
    std::vector<int> members;  ///< ranks of the communicator, ascending
    int own_rank = 0;          ///< this process' rank in the communicator; one of the members
    bool is_by_list = false;   ///< the members were given as a list of launched ranks, not as a communicator
    std::chrono::milliseconds timeout{0};
};

/// One rank's part in a rendezvous. It never blocks, and the caller passes in the current time. Threads: one.
class Rendezvous {
public:
    virtual ~Rendezvous() = default;
    /// Handles the messages that have arrived. Returns the outcome of the rendezvous as soon as it is known.
    [[nodiscard]] virtual std::optional<Status> step(RendezvousTime now) = 0;
    /// Leaves the rendezvous before its end. Members that wait for this rank's verdict are notified.
    virtual void give_up() = 0;
    /// Whether MPI no longer needs the memory of this rank's messages.
    [[nodiscard]] virtual bool have_messages_left() = 0;
};

/// Begins a rendezvous. No other rendezvous of this process may have the same number `attempt`.
[[nodiscard]] std::unique_ptr<Rendezvous> begin_rendezvous(MpiApi& mpi, RendezvousPlan plan, std::int32_t attempt,
                                                           RendezvousTime now);

/// Checks that all members are present and have the same list. The members call it before they create their
/// communicator, because that call cannot be interrupted (docs/design/0011-jobs-of-some-ranks.md). Collective among the
/// members.
///
/// It fails with Timeout if members are missing (the message names them), and with Mismatch if two lists differ (the
/// message shows them). It calls `go_on` every kInterruptionInterval; if `go_on` returns a failure, it fails with this
/// failure.
[[nodiscard]] Status meet_members(MpiApi& mpi, const RendezvousPlan& plan, const std::function<Status()>& go_on);

}  // namespace rueda::collectives
