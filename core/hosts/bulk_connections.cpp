// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/hosts/bulk_connections.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <span>
#include <utility>

#include "base/system/clock.hpp"
#include "collectives/selection/control_plane_candidate.hpp"
#include "collectives/ucx/load_plugin.hpp"
#include "collectives/ucx/ucx_rendezvous.hpp"

namespace rueda::core {

using collectives::BulkTransport;
using collectives::ControlPlane;

namespace {

using Clock = std::chrono::steady_clock;

/// How long a rank waits for other ranks at the end of the job before it logs a warning.
constexpr std::chrono::seconds kEndWarning{10};

/// How often a wait reads the launcher's notifications. Each time costs a few system calls.
constexpr std::chrono::milliseconds kLauncherInterval{100};

/// How long the ranks try to use UCX, at most, if they can use MPI instead.
constexpr std::chrono::milliseconds kTryTime{10'000};

/// Looks for reasons to end a wait for other ranks early.
class EarlyEndWatch {
public:
    /// `standing` says what this rank is doing while it waits.
    EarlyEndWatch(const EarlyEnds& ends, Standing standing) : ends_(ends), standing_(standing) {}

    [[nodiscard]] Status look() {
        if (ends_.control != nullptr && ends_.control->abort.raised()) {
            return ends_.control->abort.reason();
        }
        if (ends_.launcher == nullptr || Clock::now() < next_notifications_) {
            return {};
        }
        next_notifications_ = Clock::now() + kLauncherInterval;
        const auto cause = ends_.launcher->cause([this] { return standing_; }, base::monotonic_ns());
        return cause ? Status(ErrorCode::aborted, *cause) : Status();
    }

private:
    const EarlyEnds ends_;
    const Standing standing_;
    Clock::time_point next_notifications_{};
};

/// Waits for all ranks at the end of the job, so that no rank closes its connections while another rank still reads
/// from them.
Status wait_for_all(const base::Config& config, const base::Logger& logger, ControlPlane& control_plane,
                    BulkTransport& bulk, const EarlyEnds& ends) {
    const Clock::time_point begin = Clock::now();
    const Clock::time_point deadline = begin + collectives::start_timeout(config);
    Clock::time_point warn_at = begin + kEndWarning;
    EarlyEndWatch watch(ends, Standing::shutting_down);
    const auto warn_and_look = [&] {
        if (Clock::now() >= warn_at) {
            warn_at = Clock::time_point::max();
            logger.warning(
                "shutdown: this rank has left the job, and has waited for {} s for a rank that has not; it waits "
                "for {} s (RUEDA_START_TIMEOUT) at most: look for a process of the job that was stopped or cut off",
                kEndWarning.count(), config.start_timeout_seconds);
        }
        return watch.look();
    };
    RUEDA_RETURN_IF_FAILED(bulk.finish({collectives::start_timeout(config), warn_and_look}));
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    return control_plane.barrier_within(std::max(left, std::chrono::milliseconds(0)));
}

}  // namespace

std::chrono::milliseconds rendezvous_time(const base::Config& config, bool has_mpi) {
    const std::chrono::milliseconds half = collectives::start_timeout(config) / 2;
    return !has_mpi || config.transport == base::TransportKind::ucx ? half : std::min(kTryTime, half);
}

Result<BulkConnections> connect_bulk(const base::Config& config, ControlPlane& control_plane,
                                     const collectives::LocalGroup& group, LauncherLine* launcher) {
    BulkConnections connections;
    const bool has_mpi = control_plane.transport() != nullptr;
    if (group.host_count == 1 || (has_mpi && config.transport == base::TransportKind::mpi)) {
        return connections;
    }
    collectives::UcxRendezvousOptions options;
    options.rank = group.rank;
    options.size = group.size;
    options.time = rendezvous_time(config, has_mpi);
    EarlyEndWatch watch({nullptr, launcher}, Standing::joining);
    options.meanwhile = [&watch] { return watch.look(); };
    options.create = [&](int rank, int size) -> Result<std::unique_ptr<BulkTransport>> {
        const auto plugin = collectives::load_ucx_plugin(config.ucx_library);
        RUEDA_RETURN_IF_FAILED(plugin.status());
        return plugin.value()->create(rank, size);
    };
    auto rendezvous = collectives::rendezvous_over_ucx(
        [&](std::span<const std::byte> mine) { return control_plane.allgather(mine); }, options);
    RUEDA_RETURN_IF_FAILED(rendezvous.status());
    connections.why_not = std::move(rendezvous.value().why_not);
    connections.transport = std::move(rendezvous.value().transport);
    if (!connections.why_not.empty() && !has_mpi) {
        return failure(
            ErrorCode::unsupported,
            "the ranks run on several hosts and meet without MPI, so their data goes over UCX, and UCX cannot "
            "be used: {}; install UCX and the plugin librueda_ucx.so on every host (docs/ruedarun.md, \"Several "
            "hosts without MPI\"), or start the job over MPI (ruedarun without --no-mpi)",
            connections.why_not);
    }
    if (!connections.why_not.empty() && config.transport == base::TransportKind::ucx) {
        return failure(ErrorCode::unsupported,
                       "RUEDA_TRANSPORT=ucx: the ranks cannot send their data over UCX: {}; RUEDA_TRANSPORT=mpi sends "
                       "it over MPI",
                       connections.why_not);
    }
    return connections;
}

Status pass_last_messages(const base::Config& config, ControlPlane& control_plane, BulkTransport& bulk,
                          const EarlyEnds& ends) {
    EarlyEndWatch watch(ends, Standing::joining);
    return bulk.barrier({collectives::start_timeout(config), [&]() -> Status {
                             RUEDA_RETURN_IF_FAILED(watch.look());
                             collectives::Transport* const of_plane = control_plane.transport();
                             return of_plane == nullptr ? Status() : of_plane->progress();
                         }});
}

bool end_bulk_transport(const base::Config& config, const base::Logger& logger, ControlPlane& control_plane,
                        BulkTransport& bulk, bool after_failure, const EarlyEnds& ends) noexcept {
    bool has_ended_cleanly = !after_failure;
    if (!after_failure) {
        try {
            const Status ended = wait_for_all(config, logger, control_plane, bulk, ends);
            has_ended_cleanly = ended.is_ok();
            if (!ended.is_ok()) {
                const bool has_mpi = control_plane.transport() != nullptr;
                logger.warning(
                    "shutdown: {}; every rank had its results{}: look for a process of the job that was stopped or cut "
                    "off as it ended",
                    ended.message(),
                    has_mpi ? ", but MPI is not finalised on this one, so mpirun may report the job as failed" : "");
            }
        } catch (const std::bad_alloc&) {
            has_ended_cleanly = false;
        }
    }
    bulk.close();
    return has_ended_cleanly;
}

}  // namespace rueda::core
