// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <string>

namespace rueda::launcher {

/// `ruedarun --rank-supervisor @socket -- program …`, which mpirun starts in the place of each rank: starts the program
/// as its child, tells ruedarun how it ends, and stays until ruedarun says that the job is over. So mpirun sees no rank
/// end before the others, and has no reason to end the survivors of a failure. The program finds mpirun's environment
/// untouched and initialises MPI itself. Where nobody listens at the socket (a command pasted from --dry-run) it runs
/// the program alone. Returns the exit status. Threads: one.
[[nodiscard]] int run_rank_supervisor(std::span<const std::string> arguments);

/// The hidden option's name.
inline constexpr const char* kSupervisorOption = "--rank-supervisor";

}  // namespace rueda::launcher
