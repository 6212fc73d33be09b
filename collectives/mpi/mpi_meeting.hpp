// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <functional>
#include <span>

#include "base/status.hpp"
#include "collectives/mpi/mpi_api.hpp"

namespace rueda::collectives {

/// Of the messages on MPI_COMM_WORLD, and of the communicator that follows. The standard promises tags up to 32767;
/// programs count theirs from 0.
inline constexpr int kMeetingTag = 31007;

/// Ranks of MPI_COMM_WORLD that want to make a job of themselves meet before the call that cannot be left
/// (docs/design/0011-jobs-of-some-ranks.md): each sends its list to the lowest, which compares them and answers.
/// `members` is ascending and has `own` in it; `go_on` is asked now and then while it waits.
///
/// Timeout, naming who has not come; Mismatch, with two lists that differ; what `go_on` says. Collective.
[[nodiscard]] Status meet_members(MpiApi& mpi, std::span<const int> members, int own, int launch_size,
                                  std::chrono::milliseconds timeout, const std::function<Status()>& go_on);

}  // namespace rueda::collectives
