// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "collectives/control_plane.hpp"

namespace rueda::collectives {

/// Who is asked to be in the job: everybody that was launched, some ranks of that, or the processes of an MPI
/// communicator (docs/design/0011-jobs-of-some-ranks.md).
struct Membership {
    bool has_list = false;
    std::vector<int> ranks;               ///< of the launch, as the caller gave them
    std::vector<std::byte> communicator;  ///< an MPI_Comm's bytes; empty: none was given

    [[nodiscard]] bool is_everybody() const { return !has_list && communicator.empty(); }
};

/// The ranks of a list, ascending, for rank `own` of the `size` that were launched; InvalidArgument where it cannot be.
[[nodiscard]] Result<std::vector<int>> check_members(std::vector<int> given, int own, int size);

/// The position of `own`, which is among the members.
[[nodiscard]] int position_of(std::span<const int> members, int own);

/// Ranks that have met: whether all of them have the same list in mind, which is `members` here. Collective among them.
[[nodiscard]] Status agree_on_members(ControlPlane& plane, std::span<const int> members);

/// Mismatch: two ranks of the launch have given different lists.
[[nodiscard]] Status lists_differ(int rank, std::span<const int> list, int other, std::span<const int> others_list);

/// "0, 2, 5"; long ones are cut.
[[nodiscard]] std::string describe_ranks(std::span<const int> ranks);

}  // namespace rueda::collectives
