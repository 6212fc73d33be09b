// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/system/memory_limits.hpp"
#include "launcher/plan/mpi_launcher.hpp"
#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

enum class Severity { fine, warning, error };

/// One thing that was looked at.
struct Finding {
    Severity severity = Severity::fine;
    std::string subject;  ///< "memory lock"
    std::string found;
    std::string advice;  ///< what to do about it; empty where it is fine
};

/// Another host, as mpirun reached it.
struct HostProbe {
    std::string name;
    bool reached = false;
    std::string problem;  ///< where it was not reached: mpirun's first words
    std::string version;  ///< of the ruedarun there
    /// How far its clock is ahead (or behind, where negative), at the least: what the time that the question took
    /// cannot explain.
    double clock_ahead_seconds = 0;
};

/// An MPI plugin of the library, tried in a process of its own.
struct PluginProbe {
    std::string file;
    std::string problem;          ///< why it cannot be loaded; empty: it can
    bool is_for_open_mpi = true;  ///< else for MPICH and what has its ABI
};

struct PluginFacts {
    std::string folder;          ///< where librueda.so lies; empty: it was not found
    bool named_by_user = false;  ///< by RUEDA_MPI_PLUGIN, so no other is looked at
    std::vector<PluginProbe> plugins;
};

/// What the machine tells. Gathered by look_for_trouble(), or by hand in tests.
struct DoctorFacts {
    std::optional<MpiLauncher> mpi;
    std::string no_mpi_reason;
    std::optional<PluginFacts> plugins;  ///< empty: not looked for, as there is no mpirun
    std::optional<int> ranks;            ///< that are to run on this host
    double usable_cores = 1;
    double cores_in_mask = 1;
    double cores_online = 1;
    double load = 0;  ///< running processes, as the average of the last minute
    std::string governor;
    int numa_nodes = 1;
    std::optional<base::MemoryLimits> memory;
    std::uint64_t locked_bytes = base::MemoryLimits::kUnlimited;  ///< RLIMIT_MEMLOCK
    bool has_pinning_device = false;                              ///< InfiniBand or a GPU, whose drivers lock memory
    std::uint64_t shm_bytes = 0;                                  ///< size of /dev/shm; 0: there is none
    std::uint64_t descriptors = 1024;                             ///< RLIMIT_NOFILE, the hard limit
    bool can_share_memory = true;                                 ///< memfd_create works
    bool can_watch_processes = true;                              ///< pidfd_open works
    bool can_use_sockets = true;                                  ///< abstract Unix sockets work
    std::string ptrace_scope;                                     ///< Yama's; empty: there is none
    std::string huge_pages_shared;                                ///< transparent_hugepage/shmem_enabled
    std::string temporary_folder;
    bool temporary_folder_is_writable = true;
    bool has_loopback = true;
    bool has_network = true;  ///< an address that leads out of this host
    std::map<std::string, std::string> environment;
    std::vector<std::string> own_names;  ///< among the named hosts, those that mean this one
    std::vector<HostProbe> hosts;
};

/// Pure: what the facts mean, and what to do about them.
[[nodiscard]] std::vector<Finding> examine(const DoctorFacts& facts);

[[nodiscard]] std::string describe(const std::vector<Finding>& findings);

/// 0: all fine; 1: there are warnings; 2: there are errors.
[[nodiscard]] int exit_status_of(const std::vector<Finding>& findings);

/// `rueda doctor` and `ruedarun --doctor`: looks at this machine, and at the hosts that the options name. Prints and
/// returns the exit status; 3 where the options or what they name are wrong.
[[nodiscard]] int run_doctor(const Options& options);

/// What `ruedarun --doctor-echo` prints on another host: its name, its clock, its version.
[[nodiscard]] std::string doctor_echo();

/// Reads that out of whatever else mpirun printed between two moments of this host's clock, in seconds.
[[nodiscard]] HostProbe read_doctor_echo(const std::string& name, const std::string& text, double before, double after);

inline constexpr const char* kDoctorEchoOption = "--doctor-echo";

}  // namespace rueda::launcher
