// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/plan/unknown_hosts.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/text.hpp"
#include "launcher/hosts/network.hpp"
#include "launcher/options/text_parts.hpp"
#include "launcher/processes/captured_run.hpp"

namespace rueda::launcher {

namespace {

/// The time limit for `ssh -G`. It reads only configuration files, but these may run programs of the user (Match exec).
constexpr std::chrono::seconds kLongestQuestion{5};

/// If one of these variables is set, mpirun may connect to hosts by another program than ssh.
constexpr std::array<const char*, 9> kAgentVariables = {"OMPI_MCA_plm_rsh_agent",
                                                        "OMPI_MCA_orte_rsh_agent",
                                                        "OMPI_MCA_plm",
                                                        "PRTE_MCA_plm_ssh_agent",
                                                        "PRTE_MCA_plm",
                                                        "HYDRA_LAUNCHER",
                                                        "HYDRA_LAUNCHER_EXEC",
                                                        "I_MPI_HYDRA_BOOTSTRAP",
                                                        "I_MPI_HYDRA_BOOTSTRAP_EXEC"};
/// If --mpi-args contains one of these texts, mpirun may connect to hosts by another program than ssh. It may also read
/// the name of this program from a file.
constexpr std::array<std::string_view, 6> kAgentOptions = {"agent",     "plm",        "launcher",
                                                           "bootstrap", "param_file", "--tune"};

/// Whether mpirun connects by plain ssh. "ssh : rsh" is Open MPI's default: it uses the first of these programs that
/// exists.
bool is_plain_ssh(std::string_view agent) { return agent.empty() || agent == "ssh" || agent == "ssh : rsh"; }

void add_path_list(std::vector<std::string>& files, std::string_view list) {
    while (!list.empty()) {
        const std::string_view file = take_until(list, ':');
        if (!file.empty()) {
            files.emplace_back(file);
        }
    }
}

/// Returns the files from which Open MPI and PRRTE (its launcher since version 5) read parameters: the user's files,
/// and the files of this mpirun's installation.
std::vector<std::string> parameter_files(const LaunchPlan& plan, const Environment& environment) {
    const std::string home = text_of(environment, "HOME");
    std::vector<std::string> files = {home + "/.openmpi/mca-params.conf", home + "/.prte/mca-params.conf"};
    for (const char* const variable :
         {"OMPI_MCA_mca_base_param_files", "PRTE_MCA_mca_base_param_files", "OMPI_MCA_mca_base_override_param_file"}) {
        add_path_list(files, text_of(environment, variable));
    }
    // If mpirun is <prefix>/bin/mpirun, its files are in <prefix>/etc. Packages of distributions use a folder in /etc.
    std::vector<std::filesystem::path> folders = {"/etc/openmpi", "/etc/prte"};
    if (const std::string prefix = text_of(environment, "OPAL_PREFIX"); !prefix.empty()) {
        folders.push_back(std::filesystem::path(prefix) / "etc");
    }
    std::error_code error;
    const std::filesystem::path program = plan.mpirun.empty() ? "" : plan.mpirun.front();
    for (const auto& file : {program, std::filesystem::canonical(program, error)}) {
        folders.push_back(file.parent_path().parent_path() / "etc");
    }
    for (const std::filesystem::path& folder : folders) {
        for (const char* const name :
             {"openmpi-mca-params.conf", "openmpi-mca-params-override.conf", "prte-mca-params.conf"}) {
            files.push_back(folder / name);
        }
    }
    return files;
}

bool file_names_agent(const std::string& file) {
    std::ifstream stream(file);
    return parameters_name_agent(std::string(std::istreambuf_iterator<char>(stream), {}));
}

bool has_other_agent(const LaunchPlan& plan, const Options& options, const Environment& environment) {
    if (plan.way == LaunchWay::agents) {
        return false;  // ruedarun itself runs ssh
    }
    const bool by_variable = std::any_of(kAgentVariables.begin(), kAgentVariables.end(),
                                         [&](const char* name) { return !is_plain_ssh(text_of(environment, name)); });
    const bool by_option = std::any_of(options.mpi_args.begin(), options.mpi_args.end(), [](const std::string& word) {
        return std::any_of(kAgentOptions.begin(), kAgentOptions.end(),
                           [&](std::string_view part) { return word.find(part) != std::string::npos; });
    });
    if (by_variable || by_option) {
        return true;
    }
    const std::vector<std::string> files = parameter_files(plan, environment);
    return std::any_of(files.begin(), files.end(), file_names_agent);
}

struct UnknownHost {
    std::string name;
    std::string reason;  ///< the reason why the resolver finds no address
};

std::string left_to_launcher(const LaunchPlan& plan, const UnknownHost& host) {
    const char* const program = plan.way == LaunchWay::agents ? "ssh" : "mpirun";
    return fmt::format("host {} cannot be resolved here ({}); ruedarun starts {} anyway, because {} may know the name",
                       base::quote(host.name), host.reason, program, program);
}

/// Returns a line for the user if ssh did not answer, and an empty text if ssh knows the host.
Result<std::string> ask_ssh(const LaunchPlan& plan, const UnknownHost& host, const CapturedRun& answer) {
    const bool answered = answer.in_time && WIFEXITED(answer.wait_status) && WEXITSTATUS(answer.wait_status) == 0;
    const SshHost found = read_ssh_configuration(answered ? answer.text : "");
    if (found.address.empty()) {
        return left_to_launcher(plan, host);
    }
    const std::string why = found.address == host.name ? host.reason : why_unknown(found.address);
    if (found.has_proxy || why.empty()) {
        return std::string();
    }
    return failure(
        ErrorCode::invalid_argument,
        "host {} is not known: this host has no address for it ({}), and ssh's configuration {}; check the "
        "name, give ruedarun an address of the host, {}",
        base::quote(host.name), host.reason,
        found.address == host.name
            ? "has no HostName for it"
            : fmt::format("has the HostName {} for it, which has none either", base::quote(found.address)),
        plan.way == LaunchWay::agents
            ? "or add the name to ssh's configuration"
            : "add the name to ssh's configuration, or name the program by which mpirun reaches it with --mpi-args "
              "'--mca plm_rsh_agent …'");
}

}  // namespace

bool parameters_name_agent(std::string_view text) {
    constexpr std::array<std::string_view, 5> kNames = {"plm_rsh_agent", "orte_rsh_agent", "pls_rsh_agent",
                                                        "plm_ssh_agent", "plm"};
    bool found = false;
    while (!text.empty()) {
        std::string_view line = take_until(text, '\n');
        line = line.substr(0, line.find('#'));
        const std::size_t equals = line.find('=');
        if (equals == std::string_view::npos) {
            continue;
        }
        const std::string_view name = trimmed(line.substr(0, equals));
        const bool is_agent = std::find(kNames.begin(), kNames.end(), name) != kNames.end();
        found = found || (is_agent && !is_plain_ssh(trimmed(line.substr(equals + 1))));
    }
    return found;
}

SshHost read_ssh_configuration(std::string_view text) {
    SshHost host;
    while (!text.empty()) {
        const std::string_view line = take_until(text, '\n');
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
    if (!is_users || has_other_agent(plan, options, environment)) {
        std::transform(unknown.begin(), unknown.end(), std::back_inserter(notes),
                       [&](const UnknownHost& host) { return left_to_launcher(plan, host); });
        return notes;
    }
    for (const UnknownHost& host : unknown) {
        Result<CapturedRun> answer = run_captured({"ssh", "-G", host.name}, environment, kLongestQuestion);
        if (!answer.is_ok()) {  // ssh is not installed
            notes.push_back(left_to_launcher(plan, host));
            continue;
        }
        Result<std::string> note = ask_ssh(plan, host, answer.value());
        RUEDA_RETURN_IF_FAILED(note.status());
        if (!note.value().empty()) {
            notes.push_back(std::move(note).value());
        }
    }
    return notes;
}

}  // namespace rueda::launcher
