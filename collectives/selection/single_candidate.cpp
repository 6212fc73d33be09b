// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <memory>
#include <string>
#include <utility>

#include "collectives/selection/control_plane_candidate.hpp"
#include "collectives/single_control_plane.hpp"

namespace rueda::collectives {
namespace {

using base::ControlPlaneKind;

bool is_single_indicated(const StartRequest& /*request*/) { return true; }

Status is_single_viable(const StartRequest& request) {
    const base::Config& config = request.config;
    if (config.control_plane == ControlPlaneKind::automatic && !config.rendezvous.empty()) {
        // The settings name a socket, but not the rank of this process. This is an error, because otherwise this rank
        // would train alone.
        RUEDA_RETURN_IF_FAILED(check_socket_settings(config));
    }
    if (config.size.value_or(1) == 1 && config.rank.value_or(0) == 0) {
        return {};
    }
    return failure(
        ErrorCode::invalid_argument, "RUEDA_RANK is {} and RUEDA_SIZE is {}, but {}",
        config.rank ? fmt::to_string(*config.rank) : "not set", config.size ? fmt::to_string(*config.size) : "not set",
        config.control_plane == ControlPlaneKind::single
            ? "RUEDA_CONTROL_PLANE is single, so every process is a job of its own: unset it"
            : "this process is alone: no MPI launcher has started it, and no RUEDA_RENDEZVOUS is set: start the "
              "program by ruedarun or mpirun");
}

/// Returns a text to log if a launcher started several processes, although each of them is a job of its own. Otherwise
/// returns an empty text.
std::string single_notice(const LaunchFacts& facts) {
    if (facts.job_size.value_or(1) <= 1) {
        return "";
    }
    return fmt::format(
        "{} started {} processes, and RUEDA_CONTROL_PLANE is single: each of them is a job of its own, and trains "
        "alone; unset it to make one job of them",
        facts.launcher, *facts.job_size);
}

Result<SelectedControlPlane> open_single(const StartRequest& request) {
    auto members = members_of(request.membership, 0, 1);
    RUEDA_RETURN_IF_FAILED(members.status());
    return SelectedControlPlane{std::make_unique<SingleControlPlane>(), single_notice(request.facts),
                                std::move(members).value(), 1};
}

}  // namespace

const ControlPlaneCandidate kSingleCandidate{ControlPlaneKind::single, /*takes_communicators=*/false,
                                             is_single_indicated, is_single_viable, open_single};

}  // namespace rueda::collectives
