// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/network/endpoint_list.hpp"
#include "collectives/host/sockets/socket_control_plane.hpp"
#include "collectives/selection/control_plane_candidate.hpp"

namespace rueda::collectives {
namespace {

bool is_socket_indicated(const StartRequest& request) {
    const base::Config& config = request.config;
    return !config.rendezvous.empty() && config.rank && config.size;
}

Status is_socket_viable(const StartRequest& request) { return check_socket_settings(request.config); }

/// Returns the name of the socket for a job of some launched ranks. The name contains the lowest rank, so disjoint jobs
/// have different sockets.
std::string socket_of_members(const base::Config& config, std::span<const int> members) {
    const bool is_all = static_cast<int>(members.size()) == config.size;
    return is_all ? config.rendezvous : fmt::format("{}.ranks-{}", config.rendezvous, members.front());
}

Result<SelectedControlPlane> open_socket(const StartRequest& request) {
    const base::Config& config = request.config;
    const int launch_rank = config.rank.value_or(0);
    const int launch_size = config.size.value_or(1);
    auto members = members_of(request.membership, launch_rank, launch_size);
    RUEDA_RETURN_IF_FAILED(members.status());
    const bool is_part = static_cast<int>(members.value().size()) < launch_size;
    if (is_part && base::is_tcp_rendezvous(config.rendezvous)) {
        // A rendezvous over TCP needs the port that was reserved on rank 0's host. But rank 0 may not be a member of
        // this job.
        return failure(ErrorCode::unsupported,
                       "init as a job of the ranks {}: the ranks of this launch meet over TCP, where only all {} ranks "
                       "together can form a job; use a process set, or start the ranks over MPI (ruedarun without "
                       "--no-mpi)",
                       describe_ranks(members.value()), launch_size);
    }
    SocketControlPlaneOptions options;
    options.rendezvous = socket_of_members(config, members.value());
    options.secret = request.facts.rendezvous_secret;
    options.rank = position_of(members.value(), launch_rank);
    options.size = static_cast<int>(members.value().size());
    options.start_timeout = start_timeout(config);
    options.operation_timeout = options.start_timeout;
    if (request.interruption) {
        options.interruption = [interruption = request.interruption, launch_rank, launch_size](
                                   int /*rank*/, int /*size*/) { return interruption(launch_rank, launch_size); };
    }
    auto plane = open_socket_control_plane(options);
    if (!plane.is_ok()) {
        return is_part ? failure(plane.status().code(), "init as a job of the ranks {}: {}",
                                 describe_ranks(members.value()), plane.status().message())
                       : plane.status();
    }
    if (is_part) {
        if (Status status = agree_on_members(*plane.value(), members.value()); !status.is_ok()) {
            plane.value()->close(status.code() != ErrorCode::mismatch);
            return status;
        }
    }
    return SelectedControlPlane{std::move(plane).value(), "", std::move(members).value(), launch_size};
}

}  // namespace

Status check_socket_settings(const base::Config& config) {
    std::string missing;
    const auto need = [&](bool is_there, const char* name) {
        missing += is_there ? "" : fmt::format("{}{}", missing.empty() ? "" : ", ", name);
    };
    need(!config.rendezvous.empty(), "RUEDA_RENDEZVOUS");
    need(config.rank.has_value(), "RUEDA_RANK");
    need(config.size.has_value(), "RUEDA_SIZE");
    if (missing.empty()) {
        return {};
    }
    return failure(
        ErrorCode::invalid_argument,
        "ranks that meet by a socket need RUEDA_RENDEZVOUS, RUEDA_RANK and RUEDA_SIZE; not set: {}: set them, "
        "or start the program by ruedarun or mpirun",
        missing);
}

const ControlPlaneCandidate kSocketCandidate{base::ControlPlaneKind::socket, /*takes_communicators=*/false,
                                             is_socket_indicated, is_socket_viable, open_socket};

}  // namespace rueda::collectives
