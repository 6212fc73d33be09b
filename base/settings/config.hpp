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

/// The ways in which the ranks of a job can find each other and exchange small messages.
enum class ControlPlaneKind : std::uint8_t {
    automatic,  ///< MPI, if an MPI launcher started the process or MPI is loaded; else a socket, if the settings name
                ///< one; else a single process
    mpi,
    socket,  ///< over a Unix socket, for ranks of one host
    single,  ///< one process alone
};

/// What carries the data of tensors between hosts (docs/design/0025-ucx.md).
enum class TransportKind : std::uint8_t {
    mpi,
    ucx,
    automatic,  ///< UCX if all ranks can use it; else MPI
};

/// How tensors on GPUs move between ranks (docs/gpu.md).
enum class GpuPath : std::uint8_t {
    automatic,  ///< by NCCL, if it can connect the ranks; else through shared GPU memory and the host's memory
    nccl,       ///< by NCCL only
    host,       ///< through the host's memory only
    ipc,        ///< as `automatic`, but without NCCL
};

/// The levels of log messages. Only messages of the chosen level and of more severe levels are printed.
enum class LogLevel : std::uint8_t { trace, debug, info, warning, error, fatal, off };

/// The signal that makes a rank record its own stack (core/diagnostics/stacks).
enum class StackSignal : std::uint8_t { none, usr1, usr2, rtmin };

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;

/// All settings with their defaults. The table in settings.cpp holds the names, ranges and meanings;
/// docs/configuration.md is generated from it. read_config() fills this struct once. Tests set its members directly.
/// Threads: plain data without synchronisation.
struct Config {
    // The rank of this process and the number of ranks, in the job and on this host, if a launcher provides them.
    std::optional<std::int32_t> rank;
    std::optional<std::int32_t> size;
    std::optional<std::int32_t> local_rank;
    std::optional<std::int32_t> local_size;

    // How the ranks find each other.
    std::string rendezvous;  ///< "@name" (an abstract Unix socket), "/path", "tcp:" and addresses, or empty
    ControlPlaneKind control_plane = ControlPlaneKind::automatic;
    std::string mpi_library;  ///< the file of the MPI plugin; empty: librueda_mpi.so or librueda_mpich.so beside
                              ///< librueda.so
    std::string hostname;     ///< empty: the machine's own name
    bool leader_sockets = true;
    TransportKind transport = TransportKind::mpi;
    std::string ucx_library;  ///< the file of the UCX plugin; empty: librueda_ucx.so beside librueda.so
    double start_timeout_seconds = 60;

    // Speed.
    std::uint64_t fusion_threshold_bytes = 64 * kMiB;  ///< 0: no fusion
    double hold_seconds = 0.0002;
    double spin_seconds = -1;  ///< -1: Rueda chooses
    std::uint64_t doubling_limit_bytes = 64 * kKiB;
    std::uint64_t network_chunk_bytes = 0;        ///< 0: Rueda chooses
    Compression compression = Compression::none;  ///< the compression between hosts, for calls that do not choose one

    // Memory.
    std::uint64_t arena_limit_bytes = 128 * kMiB;
    std::uint64_t resident_limit_bytes = 0;  ///< the limit of resident memory; 0: limited only by the machine's memory
    std::uint32_t slots = 1024;
    std::uint32_t slots_max = 16384;

    // GPUs.
    std::uint32_t gpus_per_rank = 0;  ///< how many GPUs the launcher gives each rank; 0: Rueda chooses
    bool share_gpu = false;           ///< whether several ranks may use one GPU
    GpuPath gpu_path = GpuPath::automatic;
    std::string cuda_library;  ///< the file of the CUDA plugin; empty: librueda_cuda.so beside librueda.so
    std::string nccl_library;  ///< the file of NCCL; empty: see docs/gpu.md

    // Failures and stalls.
    double host_timeout_seconds = 3;
    bool stall_check = true;
    double stall_warning_seconds = 60;
    double stall_shutdown_seconds = 0;  ///< 0: a stall never ends the job
    bool call_sites = false;
    std::string diagnostics_dir;  ///< empty: no files are written
    std::uint32_t verify = 0;     ///< n: ranks compare the results of every n-th allreduce; 0: no comparison
    bool check_nan = false;
    StackSignal stack_signal = StackSignal::usr2;

    /// How often a sleeping thread checks its condition without being woken. While all processes live, nothing depends
    /// on these checks; they only limit the delay if a wake-up is lost. Users cannot change this value. Tests set it to
    /// an hour, so that a lost wake-up makes the test fail.
    double look_again_seconds = 0.1;

    // Metrics.
    std::string metrics_address = "127.0.0.1";
    std::uint32_t metrics_port = 0;  ///< 0: metrics are not served

    // Messages.
    LogLevel log_level = LogLevel::warning;
    bool log_hide_time = false;

    // The timeline.
    std::string timeline;  ///< path of the timeline file; empty or "DYNAMIC": init() starts no timeline
    bool timeline_mark_cycles = false;

    // No environment variable sets the following fields. Tests may change them, but all ranks must have the same
    // values.
    std::uint64_t chunk_bytes = 0;     ///< size in bytes of a chunk, the part of a tensor that is copied to shared
                                       ///< memory at a time; 0: Rueda computes it from the size of the L2 cache
    std::uint32_t cells_per_rank = 4;  ///< how many chunks of one rank can be in shared memory at the same time; at
                                       ///< least 2
    double liveness_seconds = 0.2;     ///< interval at which a rank checks whether other ranks are alive
    double abort_grace_seconds = 0.3;  ///< how long an operation waits, after an abort, for ranks that may still write
                                       ///< to the operation's memory

    /// Notes for the user about the settings, one line each. They name misspelt variables, and Horovod variables
    /// without a meaning in Rueda. The caller logs them as warnings.
    std::vector<std::string> notes;
};

/// Reads the settings from the environment. For each setting, a RUEDA_* variable has priority over its HOROVOD_* name,
/// and both have priority over the default. An empty variable counts as not set. If a variable has an invalid value,
/// the function fails with InvalidArgument. The message names the first such variable, its value, and what is expected.
[[nodiscard]] Result<Config> read_config(const EnvironmentLookup& environment);

}  // namespace rueda::base
