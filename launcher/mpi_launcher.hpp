// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rueda::launcher {

enum class MpiKind { open_mpi, mpich, intel_mpi };

/// An mpirun that was found, and which one it is.
struct MpiLauncher {
    std::string path;
    MpiKind kind = MpiKind::open_mpi;
    std::string version;  ///< for people, "Open MPI 4.1.4"
};

/// From what `mpirun --version` prints. Nothing, where it is none of those that ruedarun can speak to.
[[nodiscard]] std::optional<MpiLauncher> recognise_mpi_launcher(std::string path, std::string_view version_text);

/// What the flags depend on.
struct MpiRequest {
    int ranks = 1;
    bool more_ranks_than_cores = false;
    bool as_root = false;
    std::vector<std::string> travelling;  ///< names of environment variables
    std::vector<std::string> user_args;   ///< --mpi-args; where they speak of the same thing, they win
};

struct MpiCommand {
    std::vector<std::string> words;    ///< mpirun and its arguments, without the program
    std::vector<std::string> reasons;  ///< for --verbose
};

[[nodiscard]] MpiCommand mpi_command(const MpiLauncher& launcher, const MpiRequest& request);

}  // namespace rueda::launcher
