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

/// The tag of the messages of a rendezvous, and of the communicator that follows. The standard promises tags up to
/// 32767, and programs usually count theirs from 0.
inline constexpr int kRendezvousTag = 31007;

/// How long the other members wait for the lowest member's verdict after its time is over: only the lowest member knows
/// which members are missing.
inline constexpr std::chrono::milliseconds kRendezvousGrace{2000};

using RendezvousTime = std::chrono::steady_clock::time_point;

/// The members of a job that is to be made, as one of them knows them.
struct RendezvousPlan {
    MPI_Comm communicator = MPI_COMM_WORLD;
    std::vector<int> members;  ///< ranks of the communicator, ascending
    int own_rank = 0;          ///< this process' rank in the communicator; one of the members
    bool is_by_list = false;   ///< a list of ranks of the launch was given, not a communicator
    std::chrono::milliseconds timeout{0};
};

/// One rank's part in a rendezvous. It never blocks, and its clock is handed in. Threads: one.
class Rendezvous {
public:
    virtual ~Rendezvous() = default;
    /// Handles the messages that have arrived. Returns how the rendezvous ended, once that is known.
    [[nodiscard]] virtual std::optional<Status> step(RendezvousTime now) = 0;
    /// Leaves before the end. The members that wait for this rank's verdict are notified.
    virtual void give_up() = 0;
    /// Whether MPI no longer needs the memory of this rank's messages.
    [[nodiscard]] virtual bool have_messages_left() = 0;
};

/// Begins a rendezvous. No other rendezvous of this process may have the same number `attempt`.
[[nodiscard]] std::unique_ptr<Rendezvous> begin_rendezvous(MpiApi& mpi, RendezvousPlan plan, std::int32_t attempt,
                                                           RendezvousTime now);

/// The members make sure that all of them are there and gave the same list, before they make the call that creates
/// their communicator, which cannot be interrupted (docs/design/0011-jobs-of-some-ranks.md). Collective among the
/// members.
///
/// Fails with Timeout, which names the members that did not come; with Mismatch, which shows two lists that differ; or
/// with the failure that `go_on` returns, which is asked every kInterruptionInterval.
[[nodiscard]] Status meet_members(MpiApi& mpi, const RendezvousPlan& plan, const std::function<Status()>& go_on);

}  // namespace rueda::collectives
