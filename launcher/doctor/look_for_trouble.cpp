// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Collects the facts for rueda doctor. doctor.cpp draws the conclusions.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "base/network/network_addresses.hpp"
#include "base/numbers.hpp"
#include "base/system/cores.hpp"
#include "base/unique_fd.hpp"
#include "launcher/connection/control_address.hpp"
#include "launcher/doctor/doctor.hpp"
#include "launcher/doctor/gpu_facts.hpp"
#include "launcher/doctor/look_for_plugins.hpp"
#include "launcher/hosts/choose_hosts.hpp"
#include "launcher/hosts/network.hpp"
#include "launcher/plan/ssh_command.hpp"
#include "launcher/plan/surroundings.hpp"
#include "launcher/processes/captured_run.hpp"
#include "rueda/version.h"

namespace rueda::launcher {

namespace {

constexpr int kCalledWrongly = 3;

/// How long to wait for a host. If ssh gets no answer, mpirun itself gives up after about 20 s.
constexpr std::chrono::seconds kProbeTime{25};

/// How long to wait for all hosts together. This limit keeps the total time below a minute even if many hosts do not
/// answer.
constexpr std::chrono::seconds kTimeOfAllProbes{50};

/// How many hosts are asked at the same time. Each question starts an mpirun.
constexpr std::size_t kProbesAtOnce = 64;

double unix_seconds(std::chrono::system_clock::time_point time) {
    return std::chrono::duration<double>(time.time_since_epoch()).count();
}

std::string file_text(const char* path) {
    std::string text = base::read_small_file(path).value_or("");
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) {
        text.pop_back();
    }
    return text;
}

bool exists(const char* path) { return ::access(path, F_OK) == 0; }

rlim_t soft_limit(int resource) {
    rlimit limit{};
    return ::getrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

rlim_t hard_limit(int resource) {
    rlimit limit{};
    return ::getrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0 ? limit.rlim_max : RLIM_INFINITY;
}

int numa_nodes() {
    int nodes = 0;
    std::error_code error;
    std::filesystem::directory_iterator entry("/sys/devices/system/node", error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        nodes += name.starts_with("node") && base::parse_integer<int>(name.substr(4)) ? 1 : 0;
    }
    return std::max(1, nodes);
}

bool memfd_works() { return base::UniqueFd(::memfd_create("rueda-doctor", MFD_CLOEXEC)).is_open(); }

bool pidfd_works() { return base::UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))).is_open(); }

void look_at_system(DoctorFacts& facts) {
    facts.usable_cores = base::usable_cores();
    facts.cores_in_mask = base::affinity_cores();
    facts.cores_online = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
    facts.has_pinning_device = exists("/sys/class/infiniband") || exists("/proc/driver/nvidia");
    const std::string load = file_text("/proc/loadavg");
    facts.load = base::parse_real(load.substr(0, load.find(' '))).value_or(0);
    facts.governor = file_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    facts.numa_nodes = numa_nodes();
    if (const Result<base::MemoryLimits> memory = base::read_memory_limits(); memory.is_ok()) {
        facts.memory = memory.value();
    }
    const rlim_t locked = soft_limit(RLIMIT_MEMLOCK);
    facts.locked_bytes = locked == RLIM_INFINITY ? base::MemoryLimits::kUnlimited : locked;
    facts.descriptors = hard_limit(RLIMIT_NOFILE);
    struct statvfs shm {};
    facts.shm_bytes = ::statvfs("/dev/shm", &shm) == 0 ? shm.f_blocks * shm.f_frsize : 0;
    facts.can_share_memory = memfd_works();
    facts.can_watch_processes = pidfd_works();
    facts.ptrace_scope = file_text("/proc/sys/kernel/yama/ptrace_scope");
    facts.huge_pages_shared = file_text("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
}

void look_at_places(DoctorFacts& facts, const Surroundings& around) {
    facts.can_use_sockets = listen_on_this_host().is_ok();
    const std::string folder = text_of(around.environment, "TMPDIR");
    facts.temporary_folder = folder.empty() ? "/tmp" : folder;
    facts.temporary_folder_is_writable = ::access(facts.temporary_folder.c_str(), W_OK | X_OK) == 0;
    const std::vector<base::NetworkAddress> addresses = base::network_addresses();
    facts.has_loopback = std::any_of(addresses.begin(), addresses.end(),
                                     [](const base::NetworkAddress& address) { return address.is_loopback; });
    facts.has_network = std::any_of(addresses.begin(), addresses.end(), [](const base::NetworkAddress& address) {
        return !address.is_loopback && !address.is_link_local;
    });
}

bool asks_through_ssh(const Options& options, const Surroundings& around) { return options.no_mpi || !around.mpi; }

/// Returns the command that runs ruedarun on another host. The command has the same options for mpirun as a job would
/// have. Without an mpirun, the command uses ssh, also with the options of a job.
Result<std::vector<std::string>> question(const std::string& host, const Options& options, const Surroundings& around) {
    if (asks_through_ssh(options, around)) {
        return ssh_command(host, {options.ssh_port, options.ssh_identity},
                           std::vector<std::string>{around.own_path, kDoctorEchoOption});
    }
    MpiRequest request;
    request.shares = {{host, 1}};
    request.as_root = around.is_root;
    request.interfaces = options.interfaces;
    request.ssh_port = options.ssh_port;
    request.ssh_identity = options.ssh_identity;
    request.user_args = options.mpi_args;
    request.program = {around.own_path, kDoctorEchoOption};
    Result<MpiCommand> command = mpi_command(*around.mpi, request);
    RUEDA_RETURN_IF_FAILED(command.status());
    return std::move(command.value().words);
}

Status ask(const std::vector<std::string>& hosts, DoctorFacts& facts, const Options& options,
           const Surroundings& around) {
    std::vector<std::vector<std::string>> commands;
    for (const std::string& host : hosts) {
        Result<std::vector<std::string>> command = question(host, options, around);
        RUEDA_RETURN_IF_FAILED(command.status());
        commands.push_back(std::move(command).value());
    }
    const Result<std::vector<CapturedRun>> runs =
        run_all_captured(commands, around.environment, {kProbeTime, kTimeOfAllProbes}, kProbesAtOnce);
    if (!runs.is_ok() && asks_through_ssh(options, around)) {
        // ssh is not installed, which is a finding and no reason to stop.
        for (const std::string& name : hosts) {
            HostProbe unasked;
            unasked.name = name;
            unasked.problem = "cannot be asked: " + runs.status().message();
            facts.hosts.push_back(std::move(unasked));
        }
        return {};
    }
    RUEDA_RETURN_IF_FAILED(runs.status());
    for (std::size_t i = 0; i < hosts.size(); ++i) {
        const CapturedRun& run = runs.value()[i];
        HostProbe answer = read_doctor_echo(hosts[i], run.text, unix_seconds(run.begin), unix_seconds(run.end));
        if (!run.was_started) {
            answer.problem = fmt::format("not asked: asking {} hosts took {} s; name fewer at once", hosts.size(),
                                         kTimeOfAllProbes.count());
        } else if (!answer.reached && !run.in_time) {
            answer.problem = fmt::format("no answer within {:.0f} s", unix_seconds(run.end) - unix_seconds(run.begin));
        }
        facts.hosts.push_back(std::move(answer));
    }
    return {};
}

Status look_at_hosts(DoctorFacts& facts, const Options& options, const Surroundings& around) {
    const Result<std::optional<HostList>> list = choose_hosts(options, around.environment, around.read);
    RUEDA_RETURN_IF_FAILED(list.status());
    if (!list.value()) {
        return {};
    }
    std::vector<std::string> others;
    for (const Host& host : list.value()->hosts) {
        if (!around.host_names.contains(host.name) && host.name != list.value()->own) {
            others.push_back(host.name);
            continue;
        }
        facts.own_names.push_back(host.name);
        if (host.slots != 0 && !facts.ranks) {
            facts.ranks = host.slots;
        }
    }
    return ask(others, facts, options, around);
}

int refuse(const Status& status) {
    fmt::print(stderr, "rueda: {}\n", status.message());
    return kCalledWrongly;
}

}  // namespace

std::string doctor_echo() {
    return fmt::format("rueda-doctor {:.3f} {}\n", unix_seconds(std::chrono::system_clock::now()), RUEDA_VERSION);
}

int run_doctor(const Options& options) {
    Result<Surroundings> around = look_around(false);
    if (!around.is_ok()) {
        return refuse(around.status());
    }
    DoctorFacts facts;
    // An mpirun that ruedarun does not know is a finding to report, not a reason to stop.
    const Result<Surroundings> with_mpi = look_around(true);
    if (with_mpi.is_ok()) {
        around.value().mpi = with_mpi.value().mpi;
        around.value().no_mpi_reason = with_mpi.value().no_mpi_reason;
    } else {
        around.value().no_mpi_reason = with_mpi.status().message();
    }
    facts.mpi = around.value().mpi;
    facts.no_mpi_reason = around.value().no_mpi_reason;
    facts.environment = around.value().environment;
    facts.plugins = look_for_plugins(around.value().own_path, facts.environment);
    facts.gpus = look_for_gpus(facts.environment);
    facts.ranks = options.ranks;
    look_at_system(facts);
    look_at_places(facts, around.value());
    if (const Status status = look_at_hosts(facts, options, around.value()); !status.is_ok()) {
        return refuse(status);
    }
    const std::vector<Finding> findings = examine(facts);
    fmt::print("{}", describe(findings));
    return exit_status_of(findings);
}

}  // namespace rueda::launcher
