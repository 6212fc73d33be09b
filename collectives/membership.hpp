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

/// Which processes were asked to be in the job: all that were launched, some ranks of the launch, or the processes of
/// an MPI communicator (docs/design/0011-jobs-of-some-ranks.md).
struct Membership {
    bool has_list = false;
    std::vector<int> ranks;               ///< ranks of the launch, as the caller gave them
    std::vector<std::byte> communicator;  ///< an MPI_Comm's bytes; empty: none was given

    [[nodiscard]] bool is_everybody() const { return !has_list && communicator.empty(); }
};

/// Returns the ranks of a list in ascending order, for rank `own` of the `size` ranks that were launched. Fails with
/// InvalidArgument if the list is invalid.
[[nodiscard]] Result<std::vector<int>> check_members(std::vector<int> given, int own, int size);

/// The position of `own`, which must be among the members.
[[nodiscard]] int position_of(std::span<const int> members, int own);

/// Checks that all ranks that have found each other gave the same list as `members` here. Collective among them.
[[nodiscard]] Status agree_on_members(ControlPlane& plane, std::span<const int> members);

/// Returns the error Mismatch: two ranks gave different lists, which describe_ranks() has put into words.
[[nodiscard]] Status lists_differ(int rank, std::string_view list, int other, std::string_view others_list);

/// For example "0, 2, 5"; long lists are cut.
[[nodiscard]] std::string describe_ranks(std::span<const int> ranks);

}  // namespace rueda::collectives
