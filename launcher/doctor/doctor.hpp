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

/// The result of one check.
struct Finding {
    Severity severity = Severity::fine;
    std::string subject;  ///< "memory lock"
    std::string found;
    std::string advice;  ///< what to do about it; empty if it is fine
};

/// What was learned about another host by asking it over mpirun.
struct HostProbe {
    std::string name;
    bool reached = false;
    std::string problem;  ///< if it was not reached: the first line of mpirun's output
    std::string version;  ///< the version of the ruedarun there
    /// By how much its clock is ahead at least (negative: behind). The time that the question took is already
    /// subtracted.
    double clock_ahead_seconds = 0;
};

/// An MPI plugin of the library, which was tried in a process of its own.
struct PluginProbe {
    std::string file;
    std::string problem;          ///< why it cannot be loaded; empty: it can
    bool is_for_open_mpi = true;  ///< false: for MPICH and libraries with the same ABI
};

struct PluginFacts {
    std::string folder;          ///< the folder of librueda.so; empty: it was not found
    bool named_by_user = false;  ///< RUEDA_MPI_PLUGIN names the only plugin to try
    std::vector<PluginProbe> plugins;
};

/// Facts about the machine. look_for_trouble.cpp collects them; tests write them.
struct DoctorFacts {
    std::optional<MpiLauncher> mpi;
    std::string no_mpi_reason;
    std::optional<PluginFacts> plugins;  ///< empty: not looked for, because there is no mpirun
    std::optional<int> ranks;            ///< the ranks that will run on this host
    double usable_cores = 1;
    double cores_in_mask = 1;
    double cores_online = 1;
    double load = 0;  ///< running processes, averaged over the last minute
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
    std::string ptrace_scope;                                     ///< the setting of Yama; empty: there is none
    std::string huge_pages_shared;                                ///< transparent_hugepage/shmem_enabled
    std::string temporary_folder;
    bool temporary_folder_is_writable = true;
    bool has_loopback = true;
    bool has_network = true;  ///< an address that leads out of this host
    Environment environment;
    std::vector<std::string> own_names;  ///< the named hosts that mean this host
    std::vector<HostProbe> hosts;
};

/// Says what the facts mean, and what to do about them. Pure.
[[nodiscard]] std::vector<Finding> examine(const DoctorFacts& facts);

[[nodiscard]] std::string describe(const std::vector<Finding>& findings);

/// 0: all fine; 1: there are warnings; 2: there are errors.
[[nodiscard]] int exit_status_of(const std::vector<Finding>& findings);

/// `rueda doctor` and `ruedarun --doctor`: looks at this machine and at the hosts that the options name, and prints the
/// findings. Returns the exit status, which is 3 if the options or the files that they name are wrong.
[[nodiscard]] int run_doctor(const Options& options);

/// The line that `ruedarun --doctor-echo` prints on another host: a mark, the clock, and the version.
[[nodiscard]] std::string doctor_echo();

/// Finds that line in the output of mpirun. The question was asked at `before` and answered at `after`, in seconds of
/// this host's clock.
[[nodiscard]] HostProbe read_doctor_echo(const std::string& name, const std::string& text, double before, double after);

inline constexpr const char* kDoctorEchoOption = "--doctor-echo";

}  // namespace rueda::launcher
