// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <string>

namespace rueda::launcher {

/// `ruedarun --rank-supervisor [NAME …] -- program …`, which mpirun starts in the place of each rank. It connects to
/// the ruedarun that RUEDARUN_CONTROL names, starts the program as its child, reports how the program ends, and stays
/// until ruedarun says that the job is over. So mpirun sees no rank end before the others, and has no reason to end the
/// survivors of a failure. The program finds mpirun's environment and initialises MPI itself. Without RUEDARUN_CONTROL
/// (a user pasted a command of --dry-run) the supervisor runs the program alone; it then leaves the variables NAME of
/// torchrun unset. Returns the exit status. Threads: one.
[[nodiscard]] int run_rank_supervisor(std::span<const std::string> arguments);

}  // namespace rueda::launcher
