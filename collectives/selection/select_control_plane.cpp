// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/selection/select_control_plane.hpp"

#include <array>
#include <cmath>
#include <numeric>

namespace rueda::collectives {
namespace {

/// All ways to find other ranks, most preferred first. If the settings ask for a way, the first such way is used.
/// Otherwise the first way for which is_indicated() returns true is used.
constexpr std::array kCandidates{&kSocketCandidate, &kMpiCandidate, &kSingleCandidate};

Status check_identity(const base::Config& config) {
    if (config.size && *config.size < 1) {
        return failure(ErrorCode::invalid_argument, "RUEDA_SIZE is {}, expected 1 or more", *config.size);
    }
    if (config.rank && config.size && (*config.rank < 0 || *config.rank >= *config.size)) {
        return failure(ErrorCode::invalid_argument, "RUEDA_RANK is {}, expected 0 to {} because RUEDA_SIZE is {}",
                       *config.rank, *config.size - 1, *config.size);
    }
    return {};
}

}  // namespace

std::chrono::milliseconds start_timeout(const base::Config& config) {
    return std::chrono::milliseconds(std::llround(config.start_timeout_seconds * 1000));
}

Result<std::vector<int>> members_of(const Membership& membership, int own, int size) {
    if (membership.has_list) {
        return check_members(membership.ranks, own, size);
    }
    std::vector<int> all(static_cast<std::size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    return all;
}

Result<const ControlPlaneCandidate*> choose_control_plane(const StartRequest& request) {
    const base::ControlPlaneKind asked = request.config.control_plane;
    if (!request.has_communicator()) {
        RUEDA_RETURN_IF_FAILED(check_identity(request.config));
    }
    // If the caller passes a communicator, the setting RUEDA_CONTROL_PLANE is ignored.
    const bool is_automatic = asked == base::ControlPlaneKind::automatic || request.has_communicator();
    for (const ControlPlaneCandidate* const candidate : kCandidates) {
        const bool is_possible = candidate->takes_communicators || !request.has_communicator();
        if (is_possible && (is_automatic ? candidate->is_indicated(request) : candidate->kind == asked)) {
            RUEDA_RETURN_IF_FAILED(candidate->viable(request));
            return candidate;
        }
    }
    return failure(ErrorCode::internal, "init: no control plane can serve this process");
}

Result<SelectedControlPlane> select_control_plane(const base::Config& config,
                                                  const base::EnvironmentLookup& environment,
                                                  const Interruption& interruption, const Membership& membership,
                                                  const MpiCallRules& init_rules) {
    const StartRequest request{config, read_launch_facts(environment), interruption, membership, init_rules};
    const auto candidate = choose_control_plane(request);
    RUEDA_RETURN_IF_FAILED(candidate.status());
    return candidate.value()->open(request);
}

}  // namespace rueda::collectives
