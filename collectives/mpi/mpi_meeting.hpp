// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <functional>

#include "base/status.hpp"
#include "collectives/mpi/meeting_letters.hpp"
#include "collectives/mpi/mpi_api.hpp"

namespace rueda::collectives {

/// Of the messages on the communicator, and of the communicator that follows. The standard promises tags up to 32767;
/// programs count theirs from 0.
inline constexpr int kMeetingTag = 31007;

/// Ranks of a communicator that want to make a job of themselves meet before the call that cannot be left
/// (docs/design/0011-jobs-of-some-ranks.md): each writes to the lowest, which answers. `own` is one of the members;
/// `attempt`: no other of this process has it; `go_on` is asked now and then while it waits.
///
/// Timeout, naming who has not come; Mismatch, with two lists that differ; what `go_on` says. Collective among the
/// members.
[[nodiscard]] Status meet_members(MpiApi& mpi, MPI_Comm communicator, const MeetingPlan& plan, int own,
                                  std::int32_t attempt, const std::function<Status()>& go_on);

}  // namespace rueda::collectives
