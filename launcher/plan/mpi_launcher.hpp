// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "launcher/hosts/placement.hpp"

namespace rueda::launcher {

enum class MpiKind { open_mpi, mpich, intel_mpi };

/// The mpirun that was found.
struct MpiLauncher {
    std::string path;
    MpiKind kind = MpiKind::open_mpi;
    std::string version;  ///< for messages: "Open MPI 4.1.4"
    int major = 4;        ///< the first number of the version
};

/// Recognises an mpirun by what `mpirun --version` prints. Returns nothing if ruedarun does not know this mpirun.
[[nodiscard]] std::optional<MpiLauncher> recognise_mpi_launcher(std::string path, std::string_view version_text);

/// Everything that the arguments of mpirun depend on.
struct MpiRequest {
    int ranks = 1;
    std::vector<HostShare> shares;                      ///< empty: all on this host
    std::optional<bool> more_ranks_than_cores = false;  ///< empty: each host decides for itself (host_settings.hpp)
    bool as_root = false;
    std::vector<std::string> interfaces;  ///< network interfaces to use; empty: MPI's own choice
    std::optional<int> ssh_port;
    std::string ssh_identity;             ///< a file; empty: ssh's own choice
    std::vector<std::string> travelling;  ///< names of environment variables
    std::vector<std::string> user_args;   ///< --mpi-args; they win over ruedarun's own choices
    std::vector<std::string> program;     ///< the program of each rank, with its arguments
};

struct MpiCommand {
    std::vector<std::string> words;    ///< mpirun, its arguments, and the program with its own
    std::vector<std::string> reasons;  ///< for --explain
};

/// Builds the command line. docs/design/launcher.md compares those of all launchers. Returns InvalidArgument if this
/// mpirun cannot do what was asked.
[[nodiscard]] Result<MpiCommand> mpi_command(const MpiLauncher& launcher, const MpiRequest& request);

}  // namespace rueda::launcher
