// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <map>
#include <string>

#include "base/status.hpp"
#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

[[nodiscard]] std::map<std::string, std::string> environment_of_this_process();

/// 128 random bits as text: nobody else meets at this name by chance or guesses it.
[[nodiscard]] Result<std::string> random_token();

/// Gives the sockets of a job new names, for another attempt.
[[nodiscard]] Status rename_sockets(Surroundings& around);

/// Looks at the machine. Asks mpirun who it is only where it is wanted.
[[nodiscard]] Result<Surroundings> look_around(bool mpi_is_wanted);

}  // namespace rueda::launcher
