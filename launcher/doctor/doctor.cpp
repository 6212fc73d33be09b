// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Draws the conclusions of `rueda doctor` from the facts in DoctorFacts. The functions in this file do not look at the
// machine.
#include "launcher/doctor/doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "base/numbers.hpp"
#include "base/settings/config.hpp"
#include "base/settings/environment.hpp"
#include "base/text.hpp"
#include "launcher/options/text_parts.hpp"
#include "rueda/version.h"

namespace rueda::launcher {

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

/// ruedarun starts itself on another host. The ruedarun there answers with a line that begins with this word.
constexpr std::string_view kEchoMark = "rueda-doctor";

class Examination {
public:
    explicit Examination(const DoctorFacts& facts) : facts_(facts) {}

    std::vector<Finding> examine() && {
        look_at_mpi();
        look_at_plugins();
        look_at_ucx();
        look_at_cores();
        look_at_threads();
        look_at_memory();
        look_at_locked_memory();
        look_at_shared_memory();
        look_at_processes();
        look_at_huge_pages();
        look_at_files();
        std::vector<Finding> about_gpus =
            examine_gpus(facts_.gpus, facts_.ranks, facts_.environment, !facts_.hosts.empty());
        std::move(about_gpus.begin(), about_gpus.end(), std::back_inserter(findings_));
        look_at_network();
        look_at_environment();
        for (const std::string& name : facts_.own_names) {
            fine(fmt::format("host {}", name), "is this host; the lines above are about it");
        }
        for (const HostProbe& host : facts_.hosts) {
            look_at_host(host);
        }
        return std::move(findings_);
    }

private:
    void fine(std::string subject, std::string found) {
        findings_.push_back({Severity::fine, std::move(subject), std::move(found), ""});
    }
    void warn(std::string subject, std::string found, std::string advice) {
        findings_.push_back({Severity::warning, std::move(subject), std::move(found), std::move(advice)});
    }
    void fail(std::string subject, std::string found, std::string advice) {
        findings_.push_back({Severity::error, std::move(subject), std::move(found), std::move(advice)});
    }

    [[nodiscard]] std::string variable(const std::string& name) const { return text_of(facts_.environment, name); }

    [[nodiscard]] bool has_ucx() const {
        return facts_.plugins && facts_.plugins->ucx && facts_.plugins->ucx->problem.empty();
    }

    void look_at_mpi() {
        if (facts_.mpi) {
            fine("mpirun", fmt::format("{}, {}", facts_.mpi->path, facts_.mpi->version));
        } else if (!facts_.hosts.empty() && has_ucx()) {
            warn("mpirun", facts_.no_mpi_reason,
                 "start jobs on several hosts with --no-mpi, or install Open MPI (openmpi-bin)");
        } else if (!facts_.hosts.empty()) {
            fail("mpirun", facts_.no_mpi_reason,
                 "install Open MPI (openmpi-bin), or start jobs with --no-mpi, which needs ssh and UCX");
        } else {
            warn("mpirun", facts_.no_mpi_reason,
                 "install Open MPI (openmpi-bin) for jobs on several hosts, or start them with --no-mpi, which needs "
                 "ssh and "
                 "UCX; on this host ruedarun works without both");
        }
    }

    void look_at_plugins() {
        if (!facts_.mpi || !facts_.plugins) {
            return;
        }
        const PluginFacts& found = *facts_.plugins;
        const bool wants_open_mpi = facts_.mpi->kind == MpiKind::open_mpi;
        for (const PluginProbe& plugin : found.plugins) {
            if (plugin.problem.empty() && plugin.is_for_open_mpi == wants_open_mpi) {
                fine("MPI plugin", fmt::format("{} fits the mpirun and can be loaded", plugin.file));
                return;
            }
        }
        if (found.folder.empty() && !found.named_by_user) {
            warn("MPI plugin", "librueda.so was not found beside this program, nor in LD_LIBRARY_PATH",
                 "install Rueda whole (cmake --install), or name the folder of librueda.so in LD_LIBRARY_PATH");
            return;
        }
        const char* const package = wants_open_mpi ? "Open MPI is installed (Debian: libopenmpi-dev)"
                                                   : "MPICH is installed (Debian: libmpich-dev)";
        fail("MPI plugin", fmt::format("none fits {}: {}", facts_.mpi->version, what_is_wrong_with(found)),
             fmt::format("build Rueda where {} with -DRUEDA_WITH_MPI=ON, or name the file by RUEDA_MPI_PLUGIN; "
                         "--no-mpi works without",
                         package));
    }

    void look_at_ucx() {
        if (!facts_.plugins) {
            return;
        }
        const std::optional<PluginProbe>& plugin = facts_.plugins->ucx;
        // Without mpirun, ranks on several hosts need UCX to send their data to each other.
        const bool is_only_way = !facts_.mpi && !facts_.hosts.empty();
        const bool is_required = is_only_way || variable("RUEDA_TRANSPORT") == "ucx";
        if (has_ucx()) {
            fine("UCX",
                 fmt::format("{} works{}{}", plugin->file, plugin->library.empty() ? "" : ", with " + plugin->library,
                             is_required ? ""
                                         : "; RUEDA_TRANSPORT=ucx sends data between hosts over it, and so do "
                                           "jobs on several hosts without MPI"));
        } else if (is_required) {
            fail(
                "UCX", plugin ? fmt::format("{}: {}", plugin->file, plugin->problem) : "there is no plugin for it",
                fmt::format("{}, name another plugin by RUEDA_UCX_PLUGIN, or {}",
                            plugin ? "install UCX 1.13 or newer (Debian: libucx0), or add its folder to LD_LIBRARY_PATH"
                                   : "build Rueda where UCX is installed (Debian: libucx-dev)",
                            is_only_way ? "install Open MPI (openmpi-bin)" : "unset RUEDA_TRANSPORT"));
        } else {
            fine("UCX", fmt::format("{}; data between hosts goes over MPI, and jobs on several hosts need MPI",
                                    plugin ? fmt::format("{} cannot be used: {}", plugin->file, plugin->problem)
                                           : "there is no plugin for it"));
        }
    }

    static std::string what_is_wrong_with(const PluginFacts& found) {
        std::string text = found.plugins.empty() ? fmt::format("there is none in {}", found.folder) : "";
        for (const PluginProbe& plugin : found.plugins) {
            const std::string problem = !plugin.problem.empty()  ? plugin.problem
                                        : plugin.is_for_open_mpi ? "it is for Open MPI"
                                                                 : "it is for MPICH";
            // the error messages of the system's loader begin with the name of the file
            const bool says_its_name = problem.starts_with(plugin.file);
            text += fmt::format("{}{}{}", text.empty() ? "" : "; ", says_its_name ? "" : plugin.file + ": ", problem);
        }
        return text;
    }

    void look_at_cores() {
        const std::string cores = fmt::format("{:.3g} usable", facts_.usable_cores);
        if (facts_.ranks && *facts_.ranks > facts_.usable_cores) {
            warn("cores", fmt::format("{} for {} rank{}", cores, *facts_.ranks, *facts_.ranks == 1 ? "" : "s"),
                 "start fewer ranks: those without a core of their own wait for their turn in every step");
        } else if (facts_.usable_cores < facts_.cores_in_mask) {
            warn("cores", fmt::format("{}: the container's quota, not its {:.3g} cores", cores, facts_.cores_in_mask),
                 "start no more ranks than that; a process that uses up its quota stands still until the next period");
        } else if (facts_.cores_in_mask < facts_.cores_online) {
            fine("cores", fmt::format("{}: this shell is bound to them, out of {:.3g}", cores, facts_.cores_online));
        } else {
            fine("cores", cores);
        }
        // The load is an average over the last minute. The start of this program adds to the load, so a load of up to
        // half of the cores is no finding.
        if (facts_.load > 0.5 * facts_.cores_in_mask) {
            warn("load", fmt::format("{:.1f} on {:.3g} cores", facts_.load, facts_.cores_in_mask),
                 "other programs use the cores; a rank that they hold up holds up all ranks");
        } else {
            fine("load", fmt::format("{:.1f}", facts_.load));
        }
        if (facts_.governor == "powersave") {
            warn("clock of the cores", "the governor is powersave",
                 "cpupower frequency-set -g performance, where that is allowed");
        }
        if (facts_.numa_nodes > 1) {
            fine("NUMA", fmt::format("{} nodes", facts_.numa_nodes));
        }
    }

    void look_at_threads() {
        const std::optional<int> threads = base::parse_integer<int>(variable("OMP_NUM_THREADS"));
        const int ranks = facts_.ranks.value_or(1);
        if (threads && *threads * ranks > facts_.usable_cores) {
            warn("threads",
                 fmt::format("OMP_NUM_THREADS is {}: {} threads for {} rank{} on {:.3g} cores", *threads,
                             *threads * ranks, ranks, ranks == 1 ? "" : "s", facts_.usable_cores),
                 "unset OMP_NUM_THREADS; ruedarun sets it to cores divided by ranks");
        } else {
            fine("threads", threads ? fmt::format("OMP_NUM_THREADS is {}", *threads)
                                    : "OMP_NUM_THREADS is not set; ruedarun sets it to cores divided by ranks");
        }
    }

    void look_at_memory() {
        const std::uint64_t arena = base::Config().arena_limit_bytes;
        if (!facts_.memory) {
            warn("memory", "the system does not tell how much is available", "look at it with free -h");
        } else if (facts_.memory->available_bytes < arena) {
            fail("memory",
                 fmt::format("{} available ({})", base::format_bytes(facts_.memory->available_bytes),
                             facts_.memory->available_source),
                 fmt::format("give the job more memory: Rueda's shared memory alone takes up to {} a host",
                             base::format_bytes(arena)));
        } else {
            fine("memory", facts_.memory->available_bytes == base::MemoryLimits::kUnlimited
                               ? "no limit"
                               : fmt::format("{} available ({})", base::format_bytes(facts_.memory->available_bytes),
                                             facts_.memory->available_source));
        }
    }

    void look_at_locked_memory() {
        constexpr std::uint64_t kEnough = 64 * kMiB;
        const std::string limit = facts_.locked_bytes == base::MemoryLimits::kUnlimited
                                      ? "no limit"
                                      : fmt::format("at most {}", base::format_bytes(facts_.locked_bytes));
        if (facts_.locked_bytes < kEnough && facts_.has_pinning_device) {
            warn("locked memory", limit,
                 "ulimit -l unlimited (in a container: --ulimit memlock=-1); InfiniBand and GPUs need it");
        } else {
            fine("locked memory", limit);
        }
    }

    void look_at_shared_memory() {
        if (!facts_.can_share_memory) {
            fail("shared memory", "memfd_create is refused",
                 "allow it in the container's seccomp profile; without it rueda::init() fails on all ranks");
        } else if (facts_.shm_bytes < 64 * kMiB) {
            warn("shared memory",
                 facts_.shm_bytes == 0 ? "there is no /dev/shm"
                                       : fmt::format("/dev/shm has {}", base::format_bytes(facts_.shm_bytes)),
                 "--shm-size=1g for the container: Rueda does not need it, but Open MPI, NCCL and data loaders do");
        } else {
            fine("shared memory", fmt::format("/dev/shm has {}", base::format_bytes(facts_.shm_bytes)));
        }
    }

    void look_at_processes() {
        if (!facts_.can_watch_processes) {
            fail("processes", "pidfd_open is refused",
                 "Linux 5.3 or newer is needed, and a seccomp profile that allows it");
        } else if (facts_.ptrace_scope == "2" || facts_.ptrace_scope == "3") {
            warn("processes", fmt::format("kernel.yama.ptrace_scope is {}", facts_.ptrace_scope),
                 "Open MPI then cannot copy between processes: -x OMPI_MCA_btl_vader_single_copy_mechanism=none keeps "
                 "it from trying");
        } else {
            fine("processes", "can be watched");
        }
        if (!facts_.can_use_sockets) {
            fail("sockets", "Unix sockets are refused", "allow AF_UNIX in the container's seccomp profile");
        }
    }

    void look_at_huge_pages() {
        // the text has the form "always within_size [advise] never deny force"
        const std::string& all = facts_.huge_pages_shared;
        const std::size_t begin = all.find('[');
        const std::size_t end = all.find(']', begin == std::string::npos ? 0 : begin);
        if (begin == std::string::npos || end == std::string::npos) {
            fine("huge pages", "the kernel does not say whether shared memory gets any");
            return;
        }
        const std::string chosen = all.substr(begin + 1, end - begin - 1);
        const char* meaning = "not for shared memory";
        if (chosen == "always" || chosen == "force") {
            meaning = "for all shared memory";
        } else if (chosen == "within_size") {
            meaning = "for shared memory, but none beyond its end";
        } else if (chosen == "advise") {
            meaning = "for shared memory that asks for them, as resident tensors do";
        }
        fine("huge pages", fmt::format("{} (transparent_hugepage/shmem_enabled is {})", meaning, chosen));
    }

    void look_at_files() {
        constexpr std::uint64_t kFew = 1024;
        constexpr std::size_t kLongFolder =
            60;  // Open MPI adds about 40 characters to the folder's path, and the result must have at most 107
                 // characters, the limit for the name of a socket
        if (facts_.descriptors < kFew) {
            warn("open files", fmt::format("at most {}", facts_.descriptors), "ulimit -n 65536");
        } else {
            fine("open files", fmt::format("at most {}", facts_.descriptors));
        }
        if (!facts_.temporary_folder_is_writable) {
            fail("temporary files", fmt::format("{} cannot be written", base::quote(facts_.temporary_folder)),
                 "set TMPDIR to a folder that can; mpirun keeps its session there");
        } else if (facts_.temporary_folder.size() > kLongFolder) {
            warn("temporary files", fmt::format("TMPDIR has {} characters", facts_.temporary_folder.size()),
                 "set TMPDIR to a shorter name: mpirun puts sockets there, whose names have at most 107 characters");
        }
    }

    void look_at_network() {
        if (!facts_.has_loopback) {
            fail("network", "the loopback interface is down", "ip link set lo up; MPI speaks to itself over it");
        } else if (!facts_.has_network && !facts_.hosts.empty()) {
            fail("network", "no interface has an address", "other hosts cannot reach this one");
        } else {
            fine("network", facts_.has_network ? "up" : "loopback only: jobs of this host");
        }
    }

    void look_at_environment() {
        for (const char* name : {"RUEDA_RANK", "HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
            if (!variable(name).empty()) {
                warn("environment", fmt::format("{} is set to {}", name, base::quote(variable(name))),
                     fmt::format("unset {}: this shell seems to be a rank of another job", name));
            }
        }
        const Result<base::Config> config = base::read_config(base::environment_of(facts_.environment));
        if (!config.is_ok()) {
            fail("settings", config.status().message(), "correct it, or unset the variable");
            return;
        }
        for (const std::string& note : config.value().notes) {
            warn("settings", note, "correct the name, or unset it");
        }
    }

    void look_at_host(const HostProbe& host) {
        const std::string subject = fmt::format("host {}", host.name);
        constexpr double kSkewSeconds = 1;
        if (!host.reached) {
            fail(subject, host.problem.empty() ? "does not answer" : host.problem,
                 fmt::format("try: ssh {} true — it has to work without a password, and ruedarun has to be at the same "
                             "place there",
                             host.name));
            return;
        }
        fine(subject, fmt::format("{} reaches it, and ruedarun answers there", facts_.mpi ? "mpirun" : "ssh"));
        if (host.version != RUEDA_VERSION) {
            fail(subject, fmt::format("has Rueda {}, this host {}", host.version, RUEDA_VERSION),
                 "install the same version on all hosts");
        } else {
            fine(subject, fmt::format("has Rueda {}, like this host", RUEDA_VERSION));
        }
        if (std::abs(host.clock_ahead_seconds) > kSkewSeconds) {
            warn(
                subject,
                fmt::format("its clock is at least {:.1f} s {}", std::abs(host.clock_ahead_seconds),
                            host.clock_ahead_seconds > 0 ? "ahead" : "behind"),
                "run a time service (chrony) on all hosts: files that seem to come from the future confuse build tools "
                "and checkpoints");
        } else {
            fine(subject,
                 fmt::format("its clock differs from this host's by at most {:.0f} s, as far as this check can tell",
                             kSkewSeconds));
        }
    }

    const DoctorFacts& facts_;
    std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> examine(const DoctorFacts& facts) { return Examination(facts).examine(); }

std::string describe(const std::vector<Finding>& findings) {
    constexpr std::array<const char*, 3> kNames = {"ok", "warning", "error"};
    std::string text;
    std::array<int, 3> counts{};
    for (const Finding& finding : findings) {
        const auto severity = static_cast<std::size_t>(finding.severity);
        ++counts[severity];
        text += fmt::format("{:<8} {}: {}\n", kNames[severity], finding.subject, finding.found);
        if (!finding.advice.empty()) {
            text += fmt::format("         -> {}\n", finding.advice);
        }
    }
    return text + fmt::format("{} warning{}, {} error{}\n", counts[1], counts[1] == 1 ? "" : "s", counts[2],
                              counts[2] == 1 ? "" : "s");
}

int exit_status_of(const std::vector<Finding>& findings) {
    Severity worst = Severity::fine;
    for (const Finding& finding : findings) {
        worst = std::max(worst, finding.severity);
    }
    return static_cast<int>(worst);
}

HostProbe read_doctor_echo(const std::string& name, const std::string& text, double before, double after) {
    HostProbe probe;
    probe.name = name;
    std::string_view rest = text;
    while (!rest.empty()) {
        const std::string_view line = take_until(rest, '\n');
        const bool is_blank = line.find_first_not_of(" \t\r-") == std::string_view::npos;
        if (probe.problem.empty() && !is_blank) {
            probe.problem = base::quote(line, 160);
        }
        // The line looks like "rueda-doctor 1764000000.123 0.1.0".
        const std::size_t time = kEchoMark.size() + 1;
        const std::size_t version = line.starts_with(kEchoMark) ? line.find(' ', time) : std::string_view::npos;
        if (version == std::string_view::npos) {
            continue;
        }
        const std::optional<double> clock = base::parse_real(line.substr(time, version - time));
        if (!clock) {
            continue;
        }
        probe.reached = true;
        probe.problem.clear();
        probe.version = line.substr(version + 1);
        probe.clock_ahead_seconds = *clock > after ? *clock - after : std::min(0.0, *clock - before);
        return probe;
    }
    return probe;
}

}  // namespace rueda::launcher
