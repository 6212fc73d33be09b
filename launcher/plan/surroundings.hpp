// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "base/status.hpp"
#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

[[nodiscard]] Environment environment_of_this_process();

/// 128 random bits as text. No other job has them by chance, and no other user can guess them.
[[nodiscard]] Result<std::string> random_token();

/// Gives another attempt a new rendezvous and a new port.
[[nodiscard]] Status rename_sockets(Surroundings& around);

/// Looks at the machine. Looks for an mpirun, and asks for its version, only if `mpi_is_wanted`.
[[nodiscard]] Result<Surroundings> look_around(bool mpi_is_wanted);

}  // namespace rueda::launcher
