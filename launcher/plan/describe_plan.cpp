// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/plan/describe_plan.hpp"

#include <fmt/format.h>

#include "launcher/options/env_file.hpp"
#include "launcher/options/shell_words.hpp"
#include "launcher/plan/ssh_command.hpp"

namespace rueda::launcher {

namespace {

/// Returns the changes as arguments for the command `env`. The variables to remove come first, as `env` requires.
std::string env_prefix(const std::vector<EnvironmentChange>& changes) {
    std::string removed;
    std::string set;
    for (const EnvironmentChange& change : changes) {
        if (change.value && looks_like_a_secret(change.name)) {
            // The value of a secret is not shown, because people copy these lines into logs.
            set += fmt::format(" {0}=\"${0}\"", change.name);
        } else if (change.value) {
            set += fmt::format(" {}", shell_quote(change.name + "=" + *change.value));
        } else {
            removed += fmt::format(" -u {}", shell_quote(change.name));
        }
    }
    return removed.empty() && set.empty() ? "" : fmt::format("env{}{} ", removed, set);
}

std::string redirection(const LaunchPlan& plan, int rank) {
    if (plan.output != OutputMode::files) {
        return "";
    }
    return fmt::format(" >{} 2>{}", shell_quote(output_file(plan.output_dir, rank, "out")),
                       shell_quote(output_file(plan.output_dir, rank, "err")));
}

std::string direct_commands(const LaunchPlan& plan) {
    std::string text;
    for (int rank = 0; rank < plan.ranks; ++rank) {
        std::vector<EnvironmentChange> changes;
        const std::vector<EnvironmentChange> own = rank_environment(plan, rank);
        for (const EnvironmentChange& change : plan.environment) {
            bool overridden = false;
            for (const EnvironmentChange& later : own) {
                overridden = overridden || later.name == change.name;
            }
            if (!overridden) {
                changes.push_back(change);
            }
        }
        changes.insert(changes.end(), own.begin(), own.end());
        text += fmt::format("{}{}{}{}\n", env_prefix(changes), shell_join(plan.program), redirection(plan, rank),
                            plan.ranks > 1 ? " &" : "");
    }
    return text + (plan.ranks > 1 ? "wait\n" : "");
}

std::string mpirun_command(const LaunchPlan& plan) {
    std::string text;
    if (plan.output == OutputMode::files) {
        text += fmt::format("# ruedarun gives each rank its files: {} and so on\n",
                            shell_quote(output_file(plan.output_dir, 0, "out")));
    }
    for (std::size_t rank = 0; rank < plan.devices.size(); ++rank) {
        text += fmt::format("# rank {} gets {}={}\n", rank, base::kVisibleDevices, plan.devices[rank]);
    }
    if (plan.gpus.per_rank > 0 && plan.devices.empty()) {
        text += fmt::format("# each rank gets {} of its host's GPUs by {}; which, its host decides\n",
                            plan.gpus.per_rank, base::kVisibleDevices);
    }
    if (plan.hosts_set_threads) {
        text += fmt::format("# {}\n", plan.about_threads);
    }
    return text + env_prefix(plan.environment) + shell_join(plan.mpirun_to_paste) + "\n";
}

/// Puts a '#' in front of each line of the text. An argument of the program may contain line breaks.
std::string as_comment(const std::string& text) {
    std::string commented = "# ";
    for (const char c : text) {
        commented += c == '\n' ? std::string("\n# ") : std::string(1, c);
    }
    return commented + "\n";
}

/// Describes a job whose ranks are started by agents. Each agent waits for an order, which contains the secrets of the
/// job. Commands that a user pastes would get no order and start nothing. So the lines are printed as comments.
std::string agent_commands(const LaunchPlan& plan) {
    std::string text =
        as_comment("ruedarun starts an agent on each host, and sends it the variables and the program; no MPI is used");
    for (const HostPlan& host : plan.host_plans) {
        const std::string numbers =
            host.ranks == 1 ? fmt::format("rank {}", host.first_rank)
                            : fmt::format("ranks {} to {}", host.first_rank, host.first_rank + host.ranks - 1);
        text += as_comment(fmt::format("{} on {}{}: {}", numbers, host.host, host.is_here ? " (this host)" : "",
                                       shell_join(host.command)));
    }
    return text +
           as_comment(fmt::format("each rank runs: {}{}", env_prefix(plan.environment), shell_join(plan.program)));
}

/// Describes an elastic job that may use other hosts. Its ranks are not known in advance.
std::string elastic_commands(const LaunchPlan& plan) {
    const ElasticPlan& elastic = *plan.elastic;
    const std::string agent =
        shell_join(ssh_command("HOST", plan.ssh, std::vector<std::string>{plan.supervisor_program, kAgentOption, "0"}));
    return as_comment(elastic.discovery_script.empty()
                          ? fmt::format("hosts and slots: {}", format_hosts(elastic.hosts))
                          : fmt::format("hosts and slots: those that {} prints", elastic.discovery_script)) +
           as_comment(
               fmt::format("on another host, an agent starts the ranks; ruedarun starts the agent by: {}", agent)) +
           as_comment(fmt::format("each rank runs: {}{}", env_prefix(plan.environment), shell_join(plan.program)));
}

}  // namespace

std::string describe_as_shell(const LaunchPlan& plan) {
    const std::string folder =
        plan.output == OutputMode::files ? fmt::format("mkdir -p {}\n", shell_quote(plan.output_dir)) : "";
    if (plan.way == LaunchWay::agents) {
        return agent_commands(plan);
    }
    if (plan.elastic && plan.elastic->may_use_other_hosts) {
        return elastic_commands(plan);
    }
    return folder + (plan.way == LaunchWay::mpirun ? mpirun_command(plan) : direct_commands(plan));
}

std::string describe_reasons(const LaunchPlan& plan) {
    std::string text;
    for (const std::string& reason : plan.reasons) {
        text += fmt::format("# {}\n", reason);
    }
    return text;
}

}  // namespace rueda::launcher
