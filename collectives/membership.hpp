// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "collectives/control_plane.hpp"

namespace rueda::collectives {

/// Says which processes the job is to have: all launched processes, some ranks of the launch, or the processes of an
/// MPI communicator (docs/design/0011-jobs-of-some-ranks.md).
struct Membership {
    bool has_list = false;
    std::vector<int> ranks;               ///< ranks of the launch, in the caller's order
    std::vector<std::byte> communicator;  ///< the bytes of an MPI_Comm; empty if the caller passed none

    [[nodiscard]] bool is_everybody() const { return !has_list && communicator.empty(); }
};

/// Checks a list of ranks, and returns it in ascending order. It is called on rank `own` of the `size` launched ranks.
/// Fails with InvalidArgument if the list is invalid.
[[nodiscard]] Result<std::vector<int>> check_members(std::vector<int> given, int own, int size);

/// The position of `own` among the members. `own` must be a member.
[[nodiscard]] int position_of(std::span<const int> members, int own);

/// Checks that all ranks that have found each other were called with the same list as this rank. Collective among these
/// ranks.
[[nodiscard]] Status agree_on_members(ControlPlane& plane, std::span<const int> members);

/// Returns the error Mismatch for two ranks with different lists. describe_ranks() makes the texts of the two lists.
[[nodiscard]] Status lists_differ(int rank, std::string_view list, int other, std::string_view others_list);

/// Describes a list of ranks, for example "0, 2, 5". A long list is cut.
[[nodiscard]] std::string describe_ranks(std::span<const int> ranks);

}  // namespace rueda::collectives
