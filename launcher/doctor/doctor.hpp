// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/system/memory_limits.hpp"
#include "launcher/doctor/gpu_facts.hpp"
#include "launcher/plan/mpi_launcher.hpp"
#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

enum class Severity { fine, warning, error };

/// The result of one check.
struct Finding {
    Severity severity = Severity::fine;
    std::string subject;  ///< for example "memory lock"
    std::string found;
    std::string advice;  ///< what to do about the finding; empty if nothing has to be done
};

/// What the doctor has found out about another host. For this, it starts ruedarun on that host, with mpirun or with
/// ssh.
struct HostProbe {
    std::string name;
    bool reached = false;
    std::string problem;  ///< the first line of mpirun's output, if the host was not reached
    std::string version;  ///< the version of ruedarun on that host
    /// The smallest possible difference between the clocks of that host and of this host, in seconds. It is positive if
    /// that host's clock is ahead, and negative if it is behind. This host notes its own time before and after it asks
    /// for that host's time. The difference is 0 if that host's time lies between the two: the clocks may be equal.
    double clock_ahead_seconds = 0;
};

/// The result of loading a plugin of the library in a separate process.
struct PluginProbe {
    std::string file;
    std::string problem;  ///< why the plugin cannot be loaded; empty if the plugin can be loaded
    /// For an MPI plugin: true if it is for Open MPI, false if it is for MPICH or a library with the same ABI.
    bool is_for_open_mpi = true;
    /// For the UCX plugin: the version and the file of the UCX library that the plugin uses; empty if it is not known.
    std::string library = {};
};

struct PluginFacts {
    std::string folder;          ///< the folder of librueda.so; empty if it was not found
    bool named_by_user = false;  ///< true if RUEDA_MPI_PLUGIN names a plugin; only this MPI plugin was then tried
    std::vector<PluginProbe> plugins;
    /// The UCX plugin beside the library, or the one that RUEDA_UCX_PLUGIN names; empty if there is none.
    std::optional<PluginProbe> ucx = {};
};

/// Facts about the machine. look_for_trouble.cpp collects them; tests use made-up facts.
struct DoctorFacts {
    std::optional<MpiLauncher> mpi;
    std::string no_mpi_reason;
    std::optional<PluginFacts> plugins;  ///< empty if the doctor has not looked for plugins
    GpuFacts gpus;
    std::optional<int> ranks;  ///< the number of ranks that will run on this host
    double usable_cores = 1;
    double cores_in_mask = 1;
    double cores_online = 1;
    double load = 0;  ///< the number of running processes, as an average over the last minute
    std::string governor;
    int numa_nodes = 1;
    std::optional<base::MemoryLimits> memory;
    std::uint64_t locked_bytes = base::MemoryLimits::kUnlimited;  ///< RLIMIT_MEMLOCK
    bool has_pinning_device = false;                              ///< whether the host has InfiniBand or a GPU, whose
                                                                  ///< drivers lock memory
    std::uint64_t shm_bytes = 0;                                  ///< the size of /dev/shm; 0 if it does not exist
    std::uint64_t descriptors = 1024;                             ///< RLIMIT_NOFILE, the hard limit
    bool can_share_memory = true;                                 ///< whether memfd_create works
    bool can_watch_processes = true;                              ///< whether pidfd_open works
    bool can_use_sockets = true;                                  ///< whether abstract Unix sockets work
    std::string ptrace_scope;                                     ///< the setting of the security module Yama; empty if
                                                                  ///< the kernel does not have it
    std::string huge_pages_shared;                                ///< the text of transparent_hugepage/shmem_enabled
    std::string temporary_folder;
    bool temporary_folder_is_writable = true;
    bool has_loopback = true;
    bool has_network = true;  ///< whether this host has an address that is neither loopback nor link-local
    Environment environment;
    std::vector<std::string> own_names;  ///< the names in the user's list of hosts that mean this host
    std::vector<HostProbe> hosts;
};

/// Says what the facts about GPUs mean. Pure function. `ranks` is the number of ranks that will run on this host.
/// `has_other_hosts` says whether other ranks will run on other hosts.
[[nodiscard]] std::vector<Finding> examine_gpus(const GpuFacts& facts, std::optional<int> ranks,
                                                const Environment& environment, bool has_other_hosts);

/// Says what the facts mean and what to do about them. Pure function.
[[nodiscard]] std::vector<Finding> examine(const DoctorFacts& facts);

[[nodiscard]] std::string describe(const std::vector<Finding>& findings);

/// The exit status: 0 if everything is fine, 1 if there are warnings, 2 if there are errors.
[[nodiscard]] int exit_status_of(const std::vector<Finding>& findings);

/// Runs `rueda doctor` or `ruedarun --doctor`: examines this machine and the hosts that the options name, and prints
/// the findings. Returns the exit status. The status is 3 if the options are wrong, or if the options name a file whose
/// content is wrong.
[[nodiscard]] int run_doctor(const Options& options);

/// Returns the line that `ruedarun --doctor-echo` prints on another host: the word rueda-doctor, the time, and the
/// version.
[[nodiscard]] std::string doctor_echo();

/// Finds the line of doctor_echo() in the output of mpirun. `before` is the time when mpirun was started, `after` the
/// time when it answered, both in seconds of this host's clock.
[[nodiscard]] HostProbe read_doctor_echo(const std::string& name, const std::string& text, double before, double after);

inline constexpr const char* kDoctorEchoOption = "--doctor-echo";

}  // namespace rueda::launcher
