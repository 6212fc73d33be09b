// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/unknown_hosts.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/text.hpp"
#include "launcher/captured_run.hpp"
#include "launcher/network.hpp"
#include "launcher/trimmed.hpp"

namespace rueda::launcher {

namespace {

/// ssh only reads its files for this, but these may run programs of the user's (Match exec).
constexpr std::chrono::seconds kLongestQuestion{5};

/// By these mpirun is told to reach hosts in another way than by plain ssh.
constexpr std::array<const char*, 9> kAgentVariables = {"OMPI_MCA_plm_rsh_agent",
                                                        "OMPI_MCA_orte_rsh_agent",
                                                        "OMPI_MCA_plm",
                                                        "PRTE_MCA_plm_ssh_agent",
                                                        "PRTE_MCA_plm",
                                                        "HYDRA_LAUNCHER",
                                                        "HYDRA_LAUNCHER_EXEC",
                                                        "I_MPI_HYDRA_BOOTSTRAP",
                                                        "I_MPI_HYDRA_BOOTSTRAP_EXEC"};
constexpr std::array<std::string_view, 4> kAgentOptions = {"agent", "plm", "launcher", "bootstrap"};

bool has_other_agent(const Options& options, const Environment& environment) {
    const bool by_variable = std::any_of(kAgentVariables.begin(), kAgentVariables.end(), [&](const char* name) {
        const std::string value = text_of(environment, name);
        return !value.empty() && value != "ssh";
    });
    const bool by_option = std::any_of(options.mpi_args.begin(), options.mpi_args.end(), [](const std::string& word) {
        return std::any_of(kAgentOptions.begin(), kAgentOptions.end(),
                           [&](std::string_view part) { return word.find(part) != std::string::npos; });
    });
    return by_variable || by_option;
}

struct UnknownHost {
    std::string name;
    std::string reason;  ///< the resolver's
};

std::string left_to_mpirun(const UnknownHost& host) {
    return fmt::format("this host has no address for {}: {}; mpirun is started all the same, as it may know the name",
                       base::quote(host.name), host.reason);
}

/// A line for the user where ssh did not answer, nothing where ssh knows the host.
Result<std::string> ask_ssh(const UnknownHost& host, const CapturedRun& answer) {
    const bool answered = answer.in_time && WIFEXITED(answer.wait_status) && WEXITSTATUS(answer.wait_status) == 0;
    const SshHost found = read_ssh_configuration(answered ? answer.text : "");
    if (found.address.empty()) {
        return left_to_mpirun(host);
    }
    const std::string why = found.address == host.name ? host.reason : why_unknown(found.address);
    if (found.has_proxy || why.empty()) {
        return std::string();
    }
    return failure(
        ErrorCode::invalid_argument,
        "host {} is not known: this host has no address for it ({}), and ssh's configuration {}; check the name",
        base::quote(host.name), host.reason,
        found.address == host.name
            ? "has no HostName for it"
            : fmt::format("has the HostName {} for it, which has none either", base::quote(found.address)));
}

}  // namespace

SshHost read_ssh_configuration(std::string_view text) {
    SshHost host;
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        const std::string_view name = line.substr(0, line.find(' '));
        const std::string_view value = trimmed(line.substr(name.size()));
        if (name == "hostname") {
            host.address = value;
        } else if (name == "proxyjump" || name == "proxycommand") {
            host.has_proxy = host.has_proxy || (!value.empty() && value != "none");
        }
    }
    return host;
}

Result<std::vector<std::string>> look_for_unknown_hosts(const LaunchPlan& plan, const Options& options,
                                                        const Environment& environment) {
    std::vector<UnknownHost> unknown;
    for (const HostShare& share : plan.shares) {
        if (std::string reason = why_unknown(share.host); !reason.empty()) {
            unknown.push_back({share.host, std::move(reason)});
        }
    }
    std::vector<std::string> notes;
    const bool is_users = !options.hosts.empty() || !options.hostfile.empty();
    if (!is_users || has_other_agent(options, environment)) {
        std::transform(unknown.begin(), unknown.end(), std::back_inserter(notes), left_to_mpirun);
        return notes;
    }
    for (const UnknownHost& host : unknown) {
        Result<CapturedRun> answer = run_captured({"ssh", "-G", host.name}, environment, kLongestQuestion);
        if (!answer.is_ok()) {  // there is no ssh
            notes.push_back(left_to_mpirun(host));
            continue;
        }
        Result<std::string> note = ask_ssh(host, answer.value());
        RUEDA_RETURN_IF_FAILED(note.status());
        if (!note.value().empty()) {
            notes.push_back(std::move(note).value());
        }
    }
    return notes;
}

}  // namespace rueda::launcher
