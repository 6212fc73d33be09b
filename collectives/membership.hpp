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

/// Says which processes form the job: all launched processes, some of the launched ranks, or the processes of an MPI
/// communicator (docs/design/0011-jobs-of-some-ranks.md).
struct Membership {
    bool has_list = false;
    std::vector<int> ranks;  ///< The members in the caller's order. Each number is a rank among all launched ranks.
    std::vector<std::byte> communicator;  ///< the bytes of an MPI_Comm; empty if the caller passed none

    [[nodiscard]] bool is_everybody() const { return !has_list && communicator.empty(); }
};

/// Checks a list of ranks that rank `own` was given, and returns it in ascending order. `size` is the number of
/// launched ranks. Fails with InvalidArgument if the list is invalid.
[[nodiscard]] Result<std::vector<int>> check_members(std::vector<int> given, int own, int size);

/// The position of `own` among the members. `own` must be a member.
[[nodiscard]] int position_of(std::span<const int> members, int own);

/// Checks that all ranks of `plane` were given the same list of members. All ranks of `plane` must call this function.
[[nodiscard]] Status agree_on_members(ControlPlane& plane, std::span<const int> members);

/// Returns the error Mismatch for two ranks with different lists. The texts of the lists come from describe_ranks().
[[nodiscard]] Status lists_differ(int rank, std::string_view list, int other, std::string_view others_list);

/// Describes a list of ranks, for example "0, 2, 5". Shortens a long list.
[[nodiscard]] std::string describe_ranks(std::span<const int> ranks);

}  // namespace rueda::collectives
