// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "base/status.hpp"
#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

[[nodiscard]] Environment environment_of_this_process();

/// Returns 128 random bits as text. The text is unique, and no other user can guess it.
[[nodiscard]] Result<std::string> random_token();

/// Chooses a new socket name and a new port for the next attempt.
[[nodiscard]] Status rename_sockets(Surroundings& around);

/// Collects facts about the machine. If `mpi_is_wanted` is true, also searches for mpirun and asks for its version.
[[nodiscard]] Result<Surroundings> look_around(bool mpi_is_wanted);

}  // namespace rueda::launcher
