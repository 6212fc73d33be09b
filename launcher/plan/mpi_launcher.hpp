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
    std::string version;  ///< the MPI's name in messages, for example "Open MPI 4.1.4"
    int major = 4;        ///< the major version
};

/// Recognises an mpirun by the output of `mpirun --version`. Returns nothing if ruedarun does not know this mpirun.
[[nodiscard]] std::optional<MpiLauncher> recognise_mpi_launcher(std::string path, std::string_view version_text);

/// Everything that determines the arguments of mpirun.
struct MpiRequest {
    int ranks = 1;
    std::vector<HostShare> shares;  ///< the hosts and their ranks; empty: all ranks are on this host
    /// whether a host has more ranks than cores; if empty, the supervisors (parents of ranks) find this out on each
    /// host (host_settings.hpp)
    std::optional<bool> more_ranks_than_cores = false;
    bool as_root = false;
    std::vector<std::string> interfaces;  ///< network interfaces to use; if empty, MPI chooses
    std::optional<int> ssh_port;
    std::string ssh_identity;             ///< a file with a key for ssh; if empty, ssh chooses
    std::vector<std::string> travelling;  ///< names of environment variables that the ranks get
    std::vector<std::string> user_args;   ///< --mpi-args; they take precedence over ruedarun's own choices
    std::vector<std::string> program;     ///< the program of each rank, with its arguments
};

struct MpiCommand {
    std::vector<std::string> words;    ///< mpirun with its arguments, followed by the program with its arguments
    std::vector<std::string> reasons;  ///< explanations for --explain
};

/// Builds the command line of mpirun. (docs/design/launcher.md compares the command lines of all launchers.) Fails with
/// InvalidArgument if this mpirun does not support the request.
[[nodiscard]] Result<MpiCommand> mpi_command(const MpiLauncher& launcher, const MpiRequest& request);

}  // namespace rueda::launcher
