// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/settings/environment.hpp"
#include "base/status.hpp"
#include "rueda/types.hpp"

namespace rueda::base {

/// How the ranks of a job find each other and exchange small messages.
enum class ControlPlaneKind : std::uint8_t {
    automatic,  ///< MPI if an MPI launcher started the process or MPI is loaded; otherwise a socket if one is named;
                ///< otherwise a single process
    mpi,
    socket,  ///< for ranks of one host, over a Unix socket
    single,  ///< one process alone
};

/// Messages of this level and above are printed.
enum class LogLevel : std::uint8_t { trace, debug, info, warning, error, fatal, off };

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;

/// Every setting, with its default. The table in settings.cpp has names, ranges and meanings; docs/configuration.md is
/// generated from it. read_config() fills this struct once; tests fill it by hand. Threads: plain data.
struct Config {
    // Identity, if a launcher gives it.
    std::optional<std::int32_t> rank;
    std::optional<std::int32_t> size;
    std::optional<std::int32_t> local_rank;
    std::optional<std::int32_t> local_size;

    // Rendezvous.
    std::string rendezvous;  ///< "@name" (abstract Unix socket), "/path", or empty
    ControlPlaneKind control_plane = ControlPlaneKind::automatic;
    std::string mpi_library;  ///< empty: librueda_mpi.so or librueda_mpich.so beside librueda.so
    std::string hostname;     ///< empty: the machine's own
    double start_timeout_seconds = 60;

    // Speed.
    std::uint64_t fusion_threshold_bytes = 64 * kMiB;  ///< 0: no fusion
    double hold_seconds = 0.0002;
    double spin_seconds = -1;  ///< -1: automatic
    std::uint64_t doubling_limit_bytes = 64 * kKiB;
    bool ring = false;
    std::uint64_t network_chunk_bytes = 0;        ///< 0: chosen
    Compression compression = Compression::none;  ///< between hosts, if a call does not ask for a compression

    // Memory.
    std::uint64_t arena_limit_bytes = 64 * kMiB;
    std::uint64_t resident_limit_bytes = 0;  ///< 0: what the machine's memory allows
    std::uint32_t slots = 1024;
    std::uint32_t slots_max = 16384;

    // Failures and stalls.
    double host_timeout_seconds = 3;
    bool stall_check = true;
    double stall_warning_seconds = 60;
    double stall_shutdown_seconds = 0;  ///< 0: never
    bool call_sites = false;
    std::string diagnostics_dir;  ///< empty: no files are written
    std::uint32_t verify = 0;     ///< compares the results of every n-th allreduce; 0: of none
    bool check_nan = false;

    /// A thread that sleeps until it is woken looks again after this time. While all processes live, nothing depends on
    /// these looks; they bound the cost of a lost wake-up. It is not a setting of users. Tests set an hour, so that a
    /// lost wake-up makes them fail.
    double look_again_seconds = 0.1;

    // Messages.
    LogLevel log_level = LogLevel::warning;
    bool log_hide_time = false;

    // No variables set the following fields. Tests give them other values, the same on all ranks.
    std::uint64_t chunk_bytes = 0;     ///< the bytes of a tensor that are staged at a time; 0: from the size of the L2
                                       ///< cache
    std::uint32_t cells_per_rank = 4;  ///< chunks that can be staged at the same time; 2 or more
    double liveness_seconds = 0.2;     ///< how often a rank looks whether the others are alive
    double abort_grace_seconds = 0.3;  ///< after an abort, how long an operation waits for ranks that may still write

    /// What the reader of the settings wants to tell the user, one line each: misspelt names, and Horovod variables
    /// without a meaning here. The caller logs these lines as warnings.
    std::vector<std::string> notes;
};

/// Reads the RUEDA_* variables, else their HOROVOD_* names, else uses the defaults. An empty variable counts as not
/// set. The InvalidArgument names the first variable with an unusable value, the value, and what is expected.
[[nodiscard]] Result<Config> read_config(const EnvironmentLookup& environment);

}  // namespace rueda::base
