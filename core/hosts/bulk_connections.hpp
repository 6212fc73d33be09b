// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <memory>
#include <string>

#include "base/settings/config.hpp"
#include "base/status.hpp"
#include "base/system/logging.hpp"
#include "collectives/bulk_transport.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/local_group.hpp"

namespace rueda::core {

/// The transport that RUEDA_TRANSPORT asks for.
struct BulkConnections {
    std::unique_ptr<collectives::BulkTransport> transport;  ///< null: the control plane's transport carries everything
    /// The reason why there is no transport, if the settings ask for one. The text is the same on all ranks. Otherwise
    /// "".
    std::string why_not;
};

/// Connects all ranks of a job on several hosts over UCX, if the settings ask for it. Collective. A failure ends init.
[[nodiscard]] Result<BulkConnections> connect_bulk(const base::Config& config, collectives::ControlPlane& control_plane,
                                                   const collectives::LocalGroup& group);

/// Waits until all ranks have received the last messages of the control plane. MPI may still hold such a message, and
/// sends it only while a rank calls MPI. No rank calls MPI after this function, so without it a rank could wait for
/// such a message for ever. Collective.
[[nodiscard]] Status pass_last_messages(const base::Config& config, collectives::ControlPlane& control_plane,
                                        collectives::BulkTransport& bulk);

/// Ends the transport at the end of the job. Collective, unless `after_failure` is true. If ending the messages fails,
/// this function only logs a warning, because all ranks have their results already.
void end_bulk_transport(const base::Config& config, const base::Logger& logger,
                        collectives::ControlPlane& control_plane, collectives::BulkTransport& bulk, bool after_failure);

}  // namespace rueda::core
