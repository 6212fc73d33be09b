// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/settings/environment.hpp"
#include "base/status.hpp"

namespace rueda::base {

/// How the ranks of a job find each other and exchange small messages.
enum class ControlPlaneKind : std::uint8_t {
    automatic,  ///< MPI where an MPI launcher started the process or MPI is loaded, a socket where one is named, else
                ///< single
    mpi,
    socket,  ///< ranks of one host, over a Unix socket
    single,  ///< one process alone
};

/// Messages of this level and above are printed.
enum class LogLevel : std::uint8_t { trace, debug, info, warning, error, fatal, off };

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;

/// Every setting, with its default. Names, ranges and meanings stand in the table of settings.cpp and, generated from
/// it, in docs/configuration.md. Filled once by read_config(), or by hand in tests.
/// Threads: plain data.
struct Config {
    // Identity, where a launcher gives it.
    std::optional<std::int32_t> rank;
    std::optional<std::int32_t> size;
    std::optional<std::int32_t> local_rank;
    std::optional<std::int32_t> local_size;

    // Meeting.
    std::string rendezvous;  ///< "@name" (abstract Unix socket), "/path", or empty
    ControlPlaneKind control_plane = ControlPlaneKind::automatic;
    std::string mpi_library;  ///< empty: librueda_mpi.so or librueda_mpich.so beside librueda.so
    std::string hostname;     ///< empty: the machine's own
    double start_timeout_seconds = 60;

    // Speed.
    std::uint64_t fusion_threshold_bytes = 64 * kMiB;  ///< 0: no fusion
    double hold_seconds = 0.0002;
    std::uint64_t chunk_bytes = 0;  ///< 0: from the size of the L2 cache
    std::uint32_t cells_per_rank = 4;
    double spin_seconds = -1;  ///< -1: automatic
    bool numa_first = false;
    std::string topology;  ///< empty: the machine's own
    std::uint64_t doubling_limit_bytes = 64 * kKiB;
    bool ring = false;
    std::uint64_t network_chunk_bytes = 0;  ///< 0: chosen
    std::string compression;                ///< CompressionRules::parse(); empty: none

    // Memory.
    std::uint64_t arena_limit_bytes = 64 * kMiB;
    std::uint64_t resident_limit_bytes = 0;  ///< 0: what the machine's memory allows
    std::uint32_t slots = 1024;
    std::uint32_t slots_max = 16384;

    // Failures and stalls.
    double liveness_seconds = 0.2;
    double abort_grace_seconds = 0.3;
    double host_timeout_seconds = 3;
    bool stall_check = true;
    double stall_warning_seconds = 60;
    double stall_shutdown_seconds = 0;  ///< 0: never
    bool call_sites = false;
    std::uint32_t verify = 0;  ///< the results of every n-th allreduce; 0: of none
    bool check_nan = false;

    /// A thread that sleeps until it is woken looks again after this time, although nothing should depend on it: it
    /// bounds what a lost wake-up costs. Not a setting of users. Tests set an hour, so that a lost wake-up makes them
    /// fail.
    double look_again_seconds = 0.1;

    // Messages.
    LogLevel log_level = LogLevel::warning;
    bool log_hide_time = false;

    /// What the reader of the settings wants to tell the user, one line each: misspelt names, Horovod variables without
    /// meaning here. The caller logs them as warnings.
    std::vector<std::string> notes;
};

/// RUEDA_* variables, else their HOROVOD_* names, else the defaults; an empty variable counts as not set.
/// InvalidArgument names the first variable with a value that cannot be used, the value, and what is expected.
[[nodiscard]] Result<Config> read_config(const EnvironmentLookup& environment);

}  // namespace rueda::base
