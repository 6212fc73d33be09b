// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/hosts/bulk_connections.hpp"

#include <chrono>
#include <span>
#include <utility>

#include "collectives/selection/control_plane_candidate.hpp"
#include "collectives/ucx/load_plugin.hpp"
#include "collectives/ucx/meet_over_ucx.hpp"

namespace rueda::core {

using collectives::BulkTransport;
using collectives::ControlPlane;

namespace {

using Clock = std::chrono::steady_clock;

/// How long a rank waits for other ranks at the end of the job before it logs a warning.
constexpr std::chrono::seconds kEndWarning{10};

}  // namespace

Result<BulkConnections> connect_bulk(const base::Config& config, ControlPlane& control_plane,
                                     const collectives::LocalGroup& group) {
    BulkConnections connections;
    if (group.host_count == 1 || config.transport == base::TransportKind::mpi) {
        return connections;
    }
    collectives::UcxMeetingOptions options;
    options.rank = group.rank;
    options.size = group.size;
    options.create = [&](int rank, int size) -> Result<std::unique_ptr<BulkTransport>> {
        const auto plugin = collectives::load_ucx_plugin(config.ucx_library);
        RUEDA_RETURN_IF_FAILED(plugin.status());
        return plugin.value()->create(rank, size);
    };
    auto meeting = collectives::meet_over_ucx(
        [&](std::span<const std::byte> mine) { return control_plane.allgather(mine); }, options);
    RUEDA_RETURN_IF_FAILED(meeting.status());
    connections.why_not = std::move(meeting.value().why_not);
    connections.transport = std::move(meeting.value().transport);
    if (!connections.why_not.empty() && config.transport == base::TransportKind::ucx) {
        return failure(ErrorCode::unsupported,
                       "RUEDA_TRANSPORT=ucx: the ranks cannot send their data over UCX: {}; RUEDA_TRANSPORT=mpi sends "
                       "it over MPI",
                       connections.why_not);
    }
    return connections;
}

Status pass_last_messages(const base::Config& config, ControlPlane& control_plane, BulkTransport& bulk) {
    return bulk.barrier({collectives::start_timeout(config), [&] {
                             collectives::Transport* const of_plane = control_plane.transport();
                             return of_plane == nullptr ? Status() : of_plane->progress();
                         }});
}

void end_bulk_transport(const base::Config& config, const base::Logger& logger, ControlPlane& control_plane,
                        BulkTransport& bulk, bool after_failure) {
    if (!after_failure) {
        Clock::time_point warn_at = Clock::now() + kEndWarning;
        const auto warn_if_late = [&] {
            if (Clock::now() >= warn_at) {
                warn_at = Clock::time_point::max();
                logger.warning(
                    "shutdown: this rank has left the job, and has waited for {} s for a rank that has not; it waits "
                    "for {} s (RUEDA_START_TIMEOUT) at most: look for a process of the job that was stopped or cut off",
                    kEndWarning.count(), config.start_timeout_seconds);
            }
            return Status();
        };
        if (const Status ended = bulk.finish({collectives::start_timeout(config), warn_if_late}); !ended.is_ok()) {
            logger.warning("shutdown: {}; every rank had its results", ended.message());
        }
        // The barrier ensures that no rank closes its connections while another rank still reads from them. If the
        // barrier fails, the control plane has failed, and later closes without waiting for the other ranks.
        static_cast<void>(control_plane.barrier().is_ok());
    }
    bulk.close();
}

}  // namespace rueda::core
