// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/settings/config.hpp"
#include "base/shared_memory/control_block.hpp"
#include "base/status.hpp"
#include "base/system/logging.hpp"
#include "collectives/bulk_transport.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/local_group.hpp"
#include "core/diagnostics/launcher_line.hpp"

namespace rueda::core {

/// The transport for the data between hosts that is not the control plane's own: the one that RUEDA_TRANSPORT asks for,
/// or the only one if the ranks meet without MPI.
struct BulkConnections {
    std::unique_ptr<collectives::BulkTransport> transport;  ///< null: the control plane's transport carries everything
    /// The reason why there is no transport, if the settings ask for one. The text is the same on all ranks. Otherwise
    /// "".
    std::string why_not;
};

/// Where a rank that waits for other ranks over UCX looks for reasons to end the wait before its deadline. Both
/// pointers may be null.
struct EarlyEnds {
    const base::ControlBlock* control = nullptr;  ///< with the abort word
    LauncherLine* launcher = nullptr;             ///< with the launcher's notifications, read every 100 ms
};

/// How long the ranks try to exchange messages over UCX before they give up. The rest of RUEDA_START_TIMEOUT must be
/// long enough for the ranks to tell each other whether the attempt succeeded. If `has_mpi` is true and RUEDA_TRANSPORT
/// is auto, the time is short, because the ranks then use MPI instead.
[[nodiscard]] std::chrono::milliseconds meeting_time(const base::Config& config, bool has_mpi);

/// Connects all ranks of a job on several hosts over UCX, if the settings ask for it, or if the control plane has no
/// transport of its own, because the ranks meet without MPI. Collective. A failure ends init.
[[nodiscard]] Result<BulkConnections> connect_bulk(const base::Config& config, collectives::ControlPlane& control_plane,
                                                   const collectives::LocalGroup& group, LauncherLine* launcher);

/// Waits until all ranks have received the last messages of the control plane. MPI may still hold such a message, and
/// sends it only while a rank calls MPI. No rank calls MPI after this function, so without it a rank could wait for
/// such a message for ever. Collective.
[[nodiscard]] Status pass_last_messages(const base::Config& config, collectives::ControlPlane& control_plane,
                                        collectives::BulkTransport& bulk, const EarlyEnds& ends);

/// Ends the transport at the end of the job, and closes it. Collective, unless `after_failure`. The ranks wait for each
/// other for at most RUEDA_START_TIMEOUT in total.
///
/// Returns false if this rank could not wait for all other ranks. In this case it only logs a warning, because all
/// ranks have their results already. The control plane must then be closed as after a failure, because another rank may
/// have died.
[[nodiscard]] bool end_bulk_transport(const base::Config& config, const base::Logger& logger,
                                      collectives::ControlPlane& control_plane, collectives::BulkTransport& bulk,
                                      bool after_failure, const EarlyEnds& ends) noexcept;

}  // namespace rueda::core
