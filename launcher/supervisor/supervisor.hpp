// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <string>

namespace rueda::launcher {

/// Runs `ruedarun --rank-supervisor [NAME …] -- program …`, which mpirun starts in the place of each rank. The
/// supervisor connects to the ruedarun that RUEDARUN_CONTROL names, starts the program as its child, reports how the
/// program ends, and runs until ruedarun says that the job is over. So from the point of view of mpirun, no rank ends
/// early, and mpirun has no reason to kill the other ranks after a failure. The program gets mpirun's environment and
/// initialises MPI itself. Without RUEDARUN_CONTROL (for example if a user pasted a command of --dry-run), the
/// supervisor runs the program alone, and does not set those variables of torchrun that are listed as NAME. Returns the
/// exit status. Threads: one.
[[nodiscard]] int run_rank_supervisor(std::span<const std::string> arguments);

}  // namespace rueda::launcher
