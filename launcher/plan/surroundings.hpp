// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "base/status.hpp"
#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

[[nodiscard]] Environment environment_of_this_process();

/// Returns 128 random bits as text. No other job gets the same text by chance, and no other user can guess it.
[[nodiscard]] Result<std::string> random_token();

/// Sets a new rendezvous and a new port for another attempt.
[[nodiscard]] Status rename_sockets(Surroundings& around);

/// Collects the facts about the machine. Only if `mpi_is_wanted` is true, it looks for an mpirun and asks for its
/// version.
[[nodiscard]] Result<Surroundings> look_around(bool mpi_is_wanted);

}  // namespace rueda::launcher
