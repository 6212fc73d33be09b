// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/start/host_agents.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/text.hpp"
#include "launcher/processes/child_process.hpp"
#include "launcher/supervisor/agent_order.hpp"
#include "launcher/watch/rank_end.hpp"

namespace rueda::launcher {

namespace {

/// Returns a file in memory with this content. The file's position is at the beginning of the content, where the reader
/// begins. No other user can read the file. The whole content is in the file, so this process need not wait for the
/// reader.
Result<base::UniqueFd> file_in_memory(const std::string& text) {
    base::UniqueFd file(::memfd_create("ruedarun-order", MFD_CLOEXEC));
    if (!file.is_open()) {
        return system_failure(ErrorCode::resource_exhausted, "memfd_create");
    }
    std::string_view left = text;
    while (!left.empty()) {
        const ssize_t written = ::write(file.value(), left.data(), left.size());
        if (written < 0 && errno != EINTR) {
            return system_failure(ErrorCode::resource_exhausted, "writing the order for the agent of a host");
        }
        left.remove_prefix(written > 0 ? static_cast<std::size_t>(written) : 0);
    }
    if (::lseek(file.value(), 0, SEEK_SET) != 0) {
        return system_failure(ErrorCode::internal, "lseek");
    }
    return file;
}

/// Returns the changes that the agent must make to the environment in which it starts. An agent on this host already
/// has ruedarun's environment. An agent on another host has the environment of a login.
std::vector<EnvironmentChange> variables_for(const LaunchPlan& plan, const Environment& own, const HostPlan& host) {
    if (host.is_here) {
        return plan.environment;
    }
    std::vector<EnvironmentChange> changes;
    for (const std::string& name : plan.travelling) {
        if (const auto found = own.find(name); found != own.end()) {
            changes.push_back({name, found->second});
        }
    }
    return changes;
}

std::string end_of_process(const HostPlan& host, int wait_status) {
    const std::string what = host.is_here ? "the agent of this host" : "ssh to " + base::quote(host.host);
    return WIFSIGNALED(wait_status) ? fmt::format("{} was killed by signal {}", what, WTERMSIG(wait_status))
                                    : fmt::format("{} ended with exit status {}", what, WEXITSTATUS(wait_status));
}

}  // namespace

Status HostAgents::start(const LaunchPlan& plan, const StartContext& context,
                         const std::vector<EnvironmentChange>& more) {
    for (const HostPlan& host : plan.host_plans) {
        RUEDA_RETURN_IF_FAILED(start_one(plan, context, more, host, host.ranks));
    }
    return {};
}

Status HostAgents::start_one(const LaunchPlan& plan, const StartContext& context,
                             const std::vector<EnvironmentChange>& more, const HostPlan& host, int local_ranks) {
    const Environment environment = changed_environment(context.environment, plan.environment);
    std::error_code error;
    AgentOrder order{std::filesystem::current_path(error).string(),
                     host.first_rank,
                     host.ranks,
                     local_ranks,
                     plan.supervisor_arguments,
                     variables_for(plan, environment, host)};
    order.variables.insert(order.variables.end(), more.begin(), more.end());
    Result<base::UniqueFd> file = file_in_memory(encode_order(order));
    RUEDA_RETURN_IF_FAILED(file.status());
    Result<OutputPipe> errors = open_output_pipe();
    RUEDA_RETURN_IF_FAILED(errors.status());
    const base::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!null.is_open()) {
        return system_failure(ErrorCode::internal, "open(/dev/null)");
    }
    ChildSpec spec;
    spec.environment = context.environment;
    spec.words = host.command;
    spec.file = host.command.front();
    if (host.is_here) {
        // The agent passes its standard input on to rank 0. So the agent needs another descriptor from which it reads
        // its order.
        spec.stdin_fd = plan.first_rank_reads_stdin ? kInherit : null.value();
        spec.kept_fd = file.value().value();
        spec.words.push_back(std::to_string(spec.kept_fd));
    } else {
        spec.stdin_fd = file.value().value();
    }
    spec.stdout_fd = spec.stderr_fd = errors.value().write_end.value();
    spec.death_signal = SIGTERM;
    spec.signal_mask = context.signal_mask;
    const Result<pid_t> child = start_child(spec);
    if (!child.is_ok()) {
        return host.is_here ? child.status()
                            : failure(child.status().code(),
                                      "the ranks of {} are started through ssh, and ssh cannot be run: {}; install ssh",
                                      base::quote(host.host), child.status().message());
    }
    processes_.push_back({host, child.value(), std::move(errors.value().read_end)});
    return {};
}

void HostAgents::add_to(base::PollSet& set) {
    for (Process& process : processes_) {
        add_errors(process.errors, set);
    }
    add_deadline(set);
}

std::optional<RankStarter::End> HostAgents::ended(pid_t pid, int wait_status) {
    const auto found = std::find_if(processes_.begin(), processes_.end(),
                                    [pid](const Process& process) { return process.pid == pid; });
    if (found == processes_.end()) {
        return std::nullopt;
    }
    read_last_errors(found->errors);
    End end{false, found->host.first_rank, found->host.ranks, end_of_process(found->host, wait_status)};
    processes_.erase(found);
    return end;
}

void HostAgents::signal(int signal_number) const {
    for (const Process& process : processes_) {
        ::kill(process.pid, signal_number);
    }
}

void HostAgents::signal_one(int first_rank, int signal_number) const {
    for (const Process& process : processes_) {
        if (process.host.first_rank == first_rank) {
            ::kill(process.pid, signal_number);
        }
    }
}

bool HostAgents::is_gone() const { return processes_.empty(); }

}  // namespace rueda::launcher
