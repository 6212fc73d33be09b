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

/// A transport for the data between hosts, besides the transport of the control plane. It exists in two cases: if
/// RUEDA_TRANSPORT asks for it, and if the ranks find each other without MPI, because the control plane then has no
/// transport.
struct BulkConnections {
    std::unique_ptr<collectives::BulkTransport> transport;  ///< null if the control plane's transport carries all
                                                            ///< messages
    /// If the settings ask for a transport and there is none, the reason why. Otherwise "". The text is the same on all
    /// ranks.
    std::string why_not;
};

/// While a rank waits for other ranks over UCX, it looks at these two objects for reasons to end the wait early. Both
/// pointers may be null.
struct EarlyEnds {
    const base::ControlBlock* control = nullptr;  ///< contains the abort word
    LauncherLine* launcher = nullptr;             ///< gives the launcher's notifications; read every 100 ms
};

/// How long the ranks try to exchange messages over UCX before they give up. The rest of RUEDA_START_TIMEOUT must be
/// long enough for the ranks to tell each other whether the attempt succeeded. If `has_mpi` is true and RUEDA_TRANSPORT
/// is auto, the time is short, because the ranks use MPI if the attempt fails.
[[nodiscard]] std::chrono::milliseconds rendezvous_time(const base::Config& config, bool has_mpi);

/// Connects all ranks of a job on several hosts over UCX. Does this only if the settings ask for UCX, or if the control
/// plane has no transport because the rendezvous of the ranks does not use MPI. Collective. A failure ends init.
[[nodiscard]] Result<BulkConnections> connect_bulk(const base::Config& config, collectives::ControlPlane& control_plane,
                                                   const collectives::LocalGroup& group, LauncherLine* launcher);

/// Waits until all ranks have received the last messages of the control plane. MPI may still hold such a message, and
/// sends it only while a rank calls MPI. No rank calls MPI after this function, so without this wait a rank could wait
/// for such a message for ever. Collective.
[[nodiscard]] Status pass_last_messages(const base::Config& config, collectives::ControlPlane& control_plane,
                                        collectives::BulkTransport& bulk, const EarlyEnds& ends);

/// Ends the transport at the end of the job, and closes it. Collective, unless `after_failure` is true. The ranks wait
/// for each other for at most RUEDA_START_TIMEOUT in total.
///
/// Returns false if this rank could not wait for all other ranks. In this case the function only logs a warning,
/// because all ranks have their results already. The caller must then close the control plane in the same way as after
/// a failure, because another rank may have died.
[[nodiscard]] bool end_bulk_transport(const base::Config& config, const base::Logger& logger,
                                      collectives::ControlPlane& control_plane, collectives::BulkTransport& bulk,
                                      bool after_failure, const EarlyEnds& ends) noexcept;

}  // namespace rueda::core
