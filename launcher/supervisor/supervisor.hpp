// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <string>

namespace rueda::launcher {

/// Runs `ruedarun --rank-supervisor [NAME …] -- program …`, which mpirun starts in the place of each rank. Returns the
/// exit status. The supervisor connects to the ruedarun that RUEDARUN_CONTROL names, starts the program as its child,
/// and reports how the program ends. It runs until ruedarun says that the job is over. So mpirun sees no rank that ends
/// early, and does not kill the other ranks after a failure. The program gets mpirun's environment and initialises MPI
/// itself.
///
/// If RUEDARUN_CONTROL is not set, the supervisor only runs the program. This is so, for example, if a user pasted a
/// command that --dry-run printed. The supervisor then sets the variables of torchrun, except those listed as NAME.
///
/// If ruedarun divides the GPUs of each host, the arguments of words_of() (rank_gpus.hpp) stand before `NAME …`. The
/// supervisor then reports the GPUs of its host. Threads: one.
[[nodiscard]] int run_rank_supervisor(std::span<const std::string> arguments);

}  // namespace rueda::launcher
