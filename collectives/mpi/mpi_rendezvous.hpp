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

/// The MPI tag of the messages of a rendezvous, and of the call that then creates the communicator. The MPI standard
/// guarantees tags up to 32767. Programs usually count their own tags from 0, so a high number is unlikely to collide.
inline constexpr int kRendezvousTag = 31007;

/// The lowest member waits for answers up to its time limit. The other members wait this much longer for the verdict,
/// because only the lowest member can tell them which members are missing.
inline constexpr std::chrono::milliseconds kRendezvousGrace{2000};

using RendezvousTime = std::chrono::steady_clock::time_point;

/// The members of a new job, as one member sees them.
struct RendezvousPlan {
    MPI_Comm communicator = MPI_COMM_WORLD;
    std::vector<int> members;  ///< ranks in `communicator`, ascending
    int own_rank = 0;          ///< This process's rank in `communicator`. `members` contains this rank.
    bool is_by_list = false;   ///< True if the members were given as a list of launched ranks, false if they were given
                               ///< as a communicator.
    std::chrono::milliseconds timeout{0};
};

/// One rank's part in a rendezvous. No function blocks, and the caller passes in the current time. Threads: only one
/// thread may use an object.
class Rendezvous {
public:
    virtual ~Rendezvous() = default;
    /// Handles the messages that have arrived. Returns the outcome of the rendezvous as soon as it is known.
    [[nodiscard]] virtual std::optional<Status> step(RendezvousTime now) = 0;
    /// Leaves the rendezvous before its end. Notifies the members that wait for this rank's verdict.
    virtual void give_up() = 0;
    /// Whether MPI no longer needs the memory of this rank's messages.
    [[nodiscard]] virtual bool have_messages_left() = 0;
};

/// Begins a rendezvous. Each rendezvous of a process must have a different number `attempt`.
[[nodiscard]] std::unique_ptr<Rendezvous> begin_rendezvous(MpiApi& mpi, RendezvousPlan plan, std::int32_t attempt,
                                                           RendezvousTime now);

/// Checks that all members are present and have the same list of members. The members call this function before they
/// create their communicator, because the creation cannot be interrupted (docs/design/0011-jobs-of-some-ranks.md). All
/// members must call it.
///
/// Fails with Timeout if members are missing (the message names them), and with Mismatch if two lists differ (the
/// message shows them). The function calls `go_on` every kInterruptionInterval. If `go_on` returns a failure, this
/// function returns the same failure.
[[nodiscard]] Status rendezvous_of_members(MpiApi& mpi, const RendezvousPlan& plan,
                                           const std::function<Status()>& go_on);

}  // namespace rueda::collectives
