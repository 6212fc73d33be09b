// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/plan/mpi_launcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "base/numbers.hpp"
#include "base/text.hpp"
#include "launcher/options/text_parts.hpp"

namespace rueda::launcher {

namespace {

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

std::string_view behind(std::string_view text, std::string_view mark) {
    const std::size_t at = text.find(mark);
    return at == std::string_view::npos ? std::string_view() : text.substr(at + mark.size());
}

MpiLauncher launcher_of(std::string path, MpiKind kind, const char* name, std::string_view version) {
    const int major = base::parse_integer<int>(version.substr(0, version.find('.'))).value_or(0);
    return {std::move(path), kind, fmt::format("{} {}", name, version), major};
}

constexpr const char* kRoomForThreads = "leaves the background threads room beside the trainers";
constexpr const char* kSurvivorsReport = "the survivors of a failure report it; ruedarun ends the job";

class CommandBuilder {
public:
    CommandBuilder(const MpiLauncher& launcher, const MpiRequest& request) : request_(request) {
        command_.words = {launcher.path};
    }

    /// Adds the words, unless the user's arguments for mpirun already contain an option for the same purpose. Such an
    /// option begins with `subject` after its leading hyphens.
    void add(std::string_view subject, std::initializer_list<std::string> words, const std::string& reason) {
        if (user_speaks_of(subject)) {
            command_.reasons.push_back(fmt::format("{}: left to --mpi-args", subject));
            return;
        }
        add_plain(words);
        const bool has_words = words.size() != 0;
        command_.reasons.push_back(
            fmt::format("{}: {}", has_words ? fmt::format("{}", fmt::join(words, " ")) : std::string(subject), reason));
    }

    void add_plain(std::initializer_list<std::string> words) { command_.words.insert(command_.words.end(), words); }
    void add_plain(const std::vector<std::string>& words) {
        command_.words.insert(command_.words.end(), words.begin(), words.end());
    }
    void explain(std::string reason) { command_.reasons.push_back(std::move(reason)); }

    MpiCommand finish() && { return std::move(command_); }

private:
    [[nodiscard]] bool user_speaks_of(std::string_view subject) const {
        return std::any_of(request_.user_args.begin(), request_.user_args.end(), [subject](std::string_view word) {
            word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
            return word.starts_with(subject);
        });
    }

    const MpiRequest& request_;
    MpiCommand command_;
};

/// Formats the hosts as "a:4,b:2". IPv6 addresses are put in brackets.
std::string host_words(const std::vector<HostShare>& shares, bool with_numbers) {
    std::string text;
    for (const HostShare& share : shares) {
        const bool is_ipv6 = share.host.find(':') != std::string::npos;
        text += text.empty() ? "" : ",";
        text += is_ipv6 ? fmt::format("[{}]", share.host) : share.host;
        text += with_numbers ? fmt::format(":{}", share.ranks) : "";
    }
    return text;
}

/// Formats the arguments for ssh as one text, which is the value of an Open MPI parameter.
std::string ssh_arguments(const MpiRequest& request) {
    std::string text = request.ssh_port ? fmt::format("-p {}", *request.ssh_port) : "";
    if (!request.ssh_identity.empty()) {
        text += fmt::format("{}-i {}", text.empty() ? "" : " ", request.ssh_identity);
    }
    return text;
}

void add_open_mpi_network(CommandBuilder& builder, const MpiRequest& request, bool is_prrte) {
    const std::string interfaces = fmt::format("{}", fmt::join(request.interfaces, ","));
    if (!interfaces.empty()) {
        builder.add("btl_tcp_if_include", {"--mca", "btl_tcp_if_include", interfaces}, "--network-interfaces");
        if (is_prrte) {
            builder.add("prte_if_include", {"--prtemca", "prte_if_include", interfaces}, "the same for mpirun itself");
        } else {
            builder.add("oob_tcp_if_include", {"--mca", "oob_tcp_if_include", interfaces},
                        "the same for mpirun itself");
        }
    }
    if (const std::string ssh = ssh_arguments(request); !ssh.empty()) {
        if (is_prrte) {
            builder.add("plm_ssh_args", {"--prtemca", "plm_ssh_args", ssh}, "--ssh-port, --ssh-identity-file");
        } else {
            builder.add("plm_rsh_args", {"--mca", "plm_rsh_args", ssh}, "--ssh-port, --ssh-identity-file");
        }
    }
}

void add_yielding(CommandBuilder& builder, std::optional<bool> more_ranks_than_cores) {
    if (!more_ranks_than_cores) {
        builder.add("mpi_yield_when_idle", {},
                    "each host sets it, 1 where it has more ranks than usable cores, else 0");
        return;
    }
    builder.add("mpi_yield_when_idle", {"--mca", "mpi_yield_when_idle", *more_ranks_than_cores ? "1" : "0"},
                *more_ranks_than_cores ? "more ranks than cores: a rank that waits in MPI yields its core"
                                       : "every rank has a core of its own");
}

/// Fails if the file name contains a blank. Open MPI splits the arguments for ssh at every blank and supports no
/// quotes. (Open MPI 4.1 calls opal_argv_split for plm_rsh_args in orte/mca/plm/rsh. PRRTE does the same for
/// plm_ssh_args in plm/ssh.)
Status check_ssh_identity(const MpiLauncher& launcher, const std::string& file) {
    if (file.find_first_of(" \t\n") == std::string::npos) {
        return {};
    }
    return failure(
        ErrorCode::invalid_argument,
        "--ssh-identity-file is {}, but the mpirun of {} cuts the arguments of ssh at blanks; expected a path "
        "without blanks; make a link to the file (ln -s), or write IdentityFile into ~/.ssh/config",
        base::quote(file, 200), launcher.version);
}

/// Builds the command line of Open MPI. Open MPI 4 starts ranks by ORTE. Open MPI 5 uses PRRTE, in which some options
/// have other names.
Result<MpiCommand> open_mpi_command(const MpiLauncher& launcher, const MpiRequest& request) {
    RUEDA_RETURN_IF_FAILED(check_ssh_identity(launcher, request.ssh_identity));
    const bool is_prrte = launcher.major >= 5;
    CommandBuilder builder(launcher, request);
    builder.add_plain({"-np", std::to_string(request.ranks)});
    if (!request.shares.empty()) {
        builder.add_plain({"--host", host_words(request.shares, true)});
    }
    if (request.as_root) {
        builder.add("allow-run-as-root", {"--allow-run-as-root"}, "this is root, as in many containers");
    }
    // Without --oversubscribe, mpirun refuses to start more ranks than the host has whole cores. When mpirun
    // counts the cores, it ignores hardware threads and the CPU quota of containers. ruedarun counts the cores itself,
    // and sets mpi_yield_when_idle below if there are more ranks than cores. With "--map-by slot", the ranks of a host
    // have consecutive numbers.
    if (is_prrte) {
        builder.add("map-by", {"--map-by", "slot:OVERSUBSCRIBE"}, "how many ranks fit is ruedarun's decision");
    } else {
        builder.add("oversubscribe", {"--oversubscribe"}, "how many ranks fit is ruedarun's decision");
        if (!request.shares.empty()) {
            builder.add("map-by", {"--map-by", "slot"}, "the ranks of a host follow each other");
        }
    }
    add_yielding(builder, request.more_ranks_than_cores);
    // With two ranks, Open MPI would bind each rank to one core. The training threads and Rueda's background thread
    // would share this core, and communication would interrupt the computation. Without binding, the kernel moves
    // threads to free cores.
    builder.add("bind-to", {"--bind-to", "none"}, kRoomForThreads);
    if (is_prrte) {
        builder.add("runtime-options", {"--runtime-options", "recoverable"}, kSurvivorsReport);
    } else {
        // Without these parameters, Open MPI 4 kills the other ranks one second after a rank has died (seen with
        // 4.1.4). These ranks could then not report the reason. Other versions ignore unknown parameters.
        builder.add("orte_abort_on_non_zero_status", {"--mca", "orte_abort_on_non_zero_status", "0"}, kSurvivorsReport);
        builder.add("orte_enable_recovery", {"--mca", "orte_enable_recovery", "1"},
                    "the same for a rank that was killed");
    }
    add_open_mpi_network(builder, request, is_prrte);
    // -x gets only names; mpirun takes the values from its own environment. If -x got values, mpirun would cut off a
    // value at a ';'.
    for (const std::string& name : request.travelling) {
        builder.add_plain({"-x", name});
    }
    builder.add_plain(request.user_args);
    builder.add_plain(request.program);
    return std::move(builder).finish();
}

/// Adds one set of arguments for each host, for example -host a -n 4 PROGRAM : -host b -n 2 PROGRAM.
void add_argument_sets(CommandBuilder& builder, const MpiRequest& request) {
    builder.explain("one set of arguments for each host: their numbers of ranks differ");
    bool first = true;
    for (const HostShare& share : request.shares) {
        if (!std::exchange(first, false)) {
            builder.add_plain({":"});
        }
        builder.add_plain({"-host", share.host, "-n", std::to_string(share.ranks)});
        builder.add_plain(request.program);
    }
}

/// Adds the hosts for Hydra. MPICH accepts the number of ranks with each host, but no -host in argument sets (seen with
/// 5.0.2). Intel MPI accepts one number for all hosts, or argument sets with -host (seen with 2021.18).
void add_hydra_hosts(CommandBuilder& builder, MpiKind kind, const MpiRequest& request) {
    if (kind == MpiKind::intel_mpi && !all_are_equal(request.shares)) {
        add_argument_sets(builder, request);
        return;
    }
    if (kind == MpiKind::intel_mpi && !request.shares.empty()) {
        builder.add_plain(
            {"-hosts", host_words(request.shares, false), "-ppn", std::to_string(request.shares.front().ranks)});
    } else if (!request.shares.empty()) {
        builder.add_plain({"-hosts", host_words(request.shares, true)});
    }
    builder.add_plain({"-n", std::to_string(request.ranks)});
    builder.add_plain(request.program);
}

/// Builds the command line of Hydra, the launcher of MPICH and Intel MPI. Hydra accepts any number of ranks. It passes
/// its whole environment to all ranks, unless it gets a list of variables.
Result<MpiCommand> hydra_command(const MpiLauncher& launcher, const MpiRequest& request) {
    if (request.ssh_port || !request.ssh_identity.empty()) {
        return failure(ErrorCode::invalid_argument,
                       "{} has no option for the port or the key of ssh; write Port and IdentityFile into "
                       "~/.ssh/config",
                       launcher.version);
    }
    if (request.interfaces.size() > 1) {
        return failure(ErrorCode::invalid_argument, "{} takes one network interface, found {}", launcher.version,
                       fmt::join(request.interfaces, ","));
    }
    CommandBuilder builder(launcher, request);
    if (launcher.kind == MpiKind::intel_mpi) {
        builder.add("genv", {"-genv", "I_MPI_PIN", "0"}, kRoomForThreads);
    } else {
        builder.add("bind-to", {"-bind-to", "none"}, kRoomForThreads);
        builder.add("disable-auto-cleanup", {"-disable-auto-cleanup"}, kSurvivorsReport);
    }
    if (!request.interfaces.empty()) {
        builder.add("iface", {"-iface", request.interfaces.front()}, "--network-interfaces");
    }
    if (!request.shares.empty() && !request.travelling.empty()) {
        builder.add("genvlist", {"-genvlist", fmt::format("{}", fmt::join(request.travelling, ","))},
                    "no other variable goes to other hosts");
    }
    builder.add_plain(request.user_args);
    add_hydra_hosts(builder, launcher.kind, request);
    return std::move(builder).finish();
}

}  // namespace

std::optional<MpiLauncher> recognise_mpi_launcher(std::string path, std::string_view version_text) {
    // The text contains, for example, "mpirun (Open MPI) 4.1.4" or "mpirun (Open MPI) 5.0.3".
    if (const std::string_view version = behind(version_text, "(Open MPI)"); !version.empty()) {
        return launcher_of(std::move(path), MpiKind::open_mpi, "Open MPI", trimmed(first_line(version)));
    }
    // The text contains, for example, "Intel(R) MPI Library for Linux* OS, Version 2021.13 Build …".
    if (version_text.find("Intel(R) MPI Library") != std::string_view::npos) {
        const std::string_view version = trimmed(first_line(behind(version_text, "Version")));
        return launcher_of(std::move(path), MpiKind::intel_mpi, "Intel MPI", version.substr(0, version.find(' ')));
    }
    // The text contains "HYDRA build details:\n    Version:                                 4.0.2".
    if (version_text.find("HYDRA build details") != std::string_view::npos) {
        return launcher_of(std::move(path), MpiKind::mpich, "MPICH",
                           trimmed(first_line(behind(version_text, "Version:"))));
    }
    return std::nullopt;
}

Result<MpiCommand> mpi_command(const MpiLauncher& launcher, const MpiRequest& request) {
    return launcher.kind == MpiKind::open_mpi ? open_mpi_command(launcher, request) : hydra_command(launcher, request);
}

}  // namespace rueda::launcher
