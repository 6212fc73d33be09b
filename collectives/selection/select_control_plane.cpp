// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/selection/select_control_plane.hpp"

#include <sys/socket.h>
#include <sys/stat.h>

#include <cmath>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/numbers.hpp"
#include "base/system/logging.hpp"
#include "collectives/host/sockets/socket_control_plane.hpp"
#include "collectives/host/sockets/socket_messages.hpp"
#include "collectives/mpi/load_plugin.hpp"
#include "collectives/single_control_plane.hpp"

namespace rueda::collectives {
namespace {

using base::ControlPlaneKind;

// What can be seen of a launcher.

std::optional<std::int32_t> number_of(const base::EnvironmentLookup& environment, const char* name) {
    const auto text = environment.value(name);
    return text ? base::parse_integer<std::int32_t>(*text) : std::nullopt;
}

bool is_folder(const std::string& path) {
    struct stat facts {};
    return ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

/// A PMIx server keeps its meeting points in a folder as long as it lives.
bool is_pmix_alive(const base::EnvironmentLookup& environment) {
    const auto folder = environment.value("PMIX_SERVER_TMPDIR");
    return folder && is_folder(*folder);
}

bool is_connected_socket(int fd) {
    sockaddr_storage peer{};
    socklen_t length = sizeof(peer);
    return ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0;
}

/// What the environment says of the launcher.
LaunchFacts launcher_of(const base::EnvironmentLookup& environment) {
    LaunchFacts facts;
    const bool has_pmix_folder = environment.value("PMIX_SERVER_TMPDIR").has_value();
    if (const auto size = number_of(environment, "OMPI_COMM_WORLD_SIZE");
        size && (!has_pmix_folder || is_pmix_alive(environment))) {
        facts.launcher = "mpirun (OMPI_COMM_WORLD_SIZE)";
        facts.job_rank = number_of(environment, "OMPI_COMM_WORLD_RANK");
        facts.job_size = size;
        facts.abi = MpiAbi::open_mpi;
    } else if (const auto fd = number_of(environment, "PMI_FD"); fd && *fd >= 0 && is_connected_socket(*fd)) {
        facts.launcher = "an MPI launcher (PMI_FD)";
        facts.job_rank = number_of(environment, "PMI_RANK");
        facts.job_size = number_of(environment, "PMI_SIZE");
        // Hydra, the launcher of MPICH and Intel MPI, says this too. Slurm does not, and serves Open MPI as well.
        if (environment.value("MPI_LOCALNRANKS")) {
            facts.abi = MpiAbi::mpich;
        }
    } else if (environment.value("PMIX_RANK") && is_pmix_alive(environment)) {
        facts.launcher = "an MPI launcher (PMIX_RANK)";
        facts.job_rank = number_of(environment, "PMIX_RANK");
        facts.job_size = number_of(environment, "SLURM_STEP_NUM_TASKS");
    }
    return facts;
}

// The choice.

Status check_identity(const base::Config& config) {
    if (config.size && *config.size < 1) {
        return failure(ErrorCode::invalid_argument, "RUEDA_SIZE is {}, expected 1 or more", *config.size);
    }
    if (config.rank && config.size && (*config.rank < 0 || *config.rank >= *config.size)) {
        return failure(ErrorCode::invalid_argument, "RUEDA_RANK is {}, expected 0 to {} as RUEDA_SIZE is {}",
                       *config.rank, *config.size - 1, *config.size);
    }
    return {};
}

Status check_socket(const base::Config& config) {
    std::string missing;
    const auto need = [&](bool is_there, const char* name) {
        missing += is_there ? "" : fmt::format("{}{}", missing.empty() ? "" : ", ", name);
    };
    need(!config.rendezvous.empty(), "RUEDA_RENDEZVOUS");
    need(config.rank.has_value(), "RUEDA_RANK");
    need(config.size.has_value(), "RUEDA_SIZE");
    if (missing.empty()) {
        return {};
    }
    return failure(
        ErrorCode::invalid_argument,
        "ranks that meet by a socket need RUEDA_RENDEZVOUS, RUEDA_RANK and RUEDA_SIZE; not set: {}: set them, "
        "or start the program by ruedarun or mpirun",
        missing);
}

Status check_single(const base::Config& config) {
    if (config.size.value_or(1) == 1 && config.rank.value_or(0) == 0) {
        return {};
    }
    return failure(
        ErrorCode::invalid_argument, "RUEDA_RANK is {} and RUEDA_SIZE is {}, but {}",
        config.rank ? fmt::to_string(*config.rank) : "not set", config.size ? fmt::to_string(*config.size) : "not set",
        config.control_plane == ControlPlaneKind::single
            ? "RUEDA_CONTROL_PLANE is single, by which every process is a job of its own: unset it"
            : "this process is alone: no MPI launcher has started it, and no RUEDA_RENDEZVOUS is set: start the "
              "program by ruedarun or mpirun");
}

// Opening what was chosen.

std::chrono::milliseconds start_timeout(const base::Config& config) {
    return std::chrono::milliseconds(std::llround(config.start_timeout_seconds * 1000));
}

std::vector<int> all_of(int size) {
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
}

/// The members of a job of those that were launched.
Result<std::vector<int>> members_of(const Membership& membership, int own, int size) {
    return membership.has_list ? check_members(membership.ranks, own, size) : all_of(size);
}

/// Where a part of the launch meets: disjoint parts have different lowest ranks.
std::string rendezvous_of(const base::Config& config, std::span<const int> members) {
    const bool is_all = static_cast<int>(members.size()) == config.size;
    return is_all ? config.rendezvous : fmt::format("{}.ranks-{}", config.rendezvous, members.front());
}

Result<SelectedControlPlane> open_socket(const base::Config& config, const Interruption& interruption,
                                         const Membership& membership) {
    const int launch_rank = config.rank.value_or(0);
    const int launch_size = config.size.value_or(1);
    auto members = members_of(membership, launch_rank, launch_size);
    RUEDA_RETURN_IF_FAILED(members.status());
    SocketControlPlaneOptions options;
    options.rendezvous = rendezvous_of(config, members.value());
    options.rank = position_of(members.value(), launch_rank);
    options.size = static_cast<int>(members.value().size());
    options.start_timeout = start_timeout(config);
    options.operation_timeout = options.start_timeout;
    if (interruption) {
        options.interruption = [=](int /*rank*/, int /*size*/) { return interruption(launch_rank, launch_size); };
    }
    auto plane = open_socket_control_plane(options);
    const bool is_part = options.size < launch_size;
    if (!plane.is_ok()) {
        return is_part ? failure(plane.status().code(), "init as a job of the ranks {}: {}",
                                 describe_ranks(members.value()), plane.status().message())
                       : plane.status();
    }
    if (is_part) {
        if (Status status = agree_on_members(*plane.value(), members.value()); !status.is_ok()) {
            plane.value()->close(status.code() != ErrorCode::mismatch);
            return status;
        }
    }
    return SelectedControlPlane{std::move(plane).value(), "", std::move(members).value(), launch_size};
}

/// A launcher of another MPI than the plugin's leaves every process alone: N jobs of size 1, each of which would train.
Status check_mpi_size(const SelectedControlPlane& selected, const base::Config& config, const LaunchFacts& facts) {
    const ControlPlane& plane = *selected.control_plane;
    const int rank = selected.launch_ranks[static_cast<std::size_t>(plane.rank())];
    if (config.size && *config.size != selected.launch_size) {
        return failure(
            ErrorCode::invalid_argument,
            "RUEDA_SIZE is {} but MPI's size is {}: start the program by the mpirun of {}, or unset RUEDA_SIZE",
            *config.size, selected.launch_size, plane.description());
    }
    if (config.rank && *config.rank != rank) {
        return failure(ErrorCode::invalid_argument, "RUEDA_RANK is {} but MPI's rank is {}: unset RUEDA_RANK",
                       *config.rank, rank);
    }
    if (facts.job_size && *facts.job_size != selected.launch_size) {
        return failure(
            ErrorCode::unsupported,
            "{} started {} processes but MPI's size is {}: the launcher and the plugin, {}, are of different "
            "MPIs; use the launcher of that MPI, or name another plugin by RUEDA_MPI_PLUGIN",
            facts.launcher, *facts.job_size, selected.launch_size, plane.description());
    }
    return {};
}

/// Settings may differ from rank to rank: what one finds wrong ends the start on all, instead of leaving the others to
/// wait for it.
Status agree(ControlPlane& plane, const Status& mine) {
    auto gathered = plane.allgather(mine.is_ok() ? Bytes() : encode_failure(mine));
    if (!gathered.is_ok()) {
        return gathered.status();
    }
    for (const Bytes& verdict : gathered.value()) {
        if (!verdict.empty()) {
            return parse_failure(verdict);
        }
    }
    return {};
}

/// A communicator is one of the MPI that is here, and in use.
Status check_mpi_in_use(const LaunchFacts& facts) {
    if (!facts.abi) {
        return failure(ErrorCode::unsupported,
                       "init: a communicator was given, and this process has no MPI; expected the one that it is of");
    }
    return facts.mpi_initialized
               ? Status()
               : failure(ErrorCode::invalid_argument,
                         "init: a communicator was given, and MPI is not initialised: call MPI_Init_thread(..., "
                         "MPI_THREAD_MULTIPLE, ...) before");
}

Result<SelectedControlPlane> open_mpi(const base::Config& config, const LaunchFacts& facts,
                                      const Interruption& interruption, const Membership& membership,
                                      const MpiCallRules& init_rules) {
    auto plugin = load_mpi_plugin(config.mpi_library, facts.abi);
    if (!plugin.is_ok()) {
        const std::string why = facts.launcher.empty() ? "" : fmt::format("started by {}, but ", facts.launcher);
        return failure(plugin.status().code(), "{}{}", why, plugin.status().message());
    }
    MpiControlPlaneOptions options;
    options.operation_timeout = start_timeout(config);
    options.interruption = interruption;
    options.membership = membership;
    options.init_rules = init_rules;
    options.init_rules.rank = facts.job_rank.value_or(-1);
    options.init_rules.size = facts.job_size.value_or(0);
    options.warn = [logger = base::Logger(config, facts.job_rank)](const std::string& text) {
        logger.warning("{}", text);
    };
    // MPI cannot be initialised twice in a process, and rueda::init() may follow a rueda::shutdown().
    options.finalize = MpiFinalize::at_exit;
    auto opened = plugin.value()->open(options);
    if (!opened.is_ok()) {
        return opened.status();
    }
    SelectedControlPlane selected{std::move(opened.value().control_plane), std::move(opened.value().notice),
                                  std::move(opened.value().launch_ranks), opened.value().launch_size};
    if (Status status = agree(*selected.control_plane, check_mpi_size(selected, config, facts)); !status.is_ok()) {
        selected.control_plane->close(status.code() == ErrorCode::aborted || status.code() == ErrorCode::timeout);
        return status;
    }
    return selected;
}

}  // namespace

LaunchFacts read_launch_facts(const base::EnvironmentLookup& environment) {
    LaunchFacts facts = launcher_of(environment);
    const LoadedMpi loaded = find_loaded_mpi();
    facts.mpi_initialized = loaded.is_initialized;
    // An MPI that is in use decides; one that some library has brought along comes after the launcher.
    if (loaded.is_initialized || !facts.abi) {
        facts.abi = loaded.abi;
    }
    return facts;
}

Result<ControlPlaneChoice> choose_control_plane(const base::Config& config, const LaunchFacts& facts) {
    RUEDA_RETURN_IF_FAILED(check_identity(config));
    const bool is_automatic = config.control_plane == ControlPlaneKind::automatic;
    const bool names_socket = !config.rendezvous.empty() && config.rank && config.size;
    if (config.control_plane == ControlPlaneKind::socket || (is_automatic && names_socket)) {
        RUEDA_RETURN_IF_FAILED(check_socket(config));
        return ControlPlaneChoice::socket;
    }
    if (config.control_plane == ControlPlaneKind::mpi ||
        (is_automatic && (facts.mpi_initialized || !facts.launcher.empty()))) {
        return ControlPlaneChoice::mpi;
    }
    // A meeting point, but not who we are: better said now than trained alone.
    if (is_automatic && !config.rendezvous.empty()) {
        RUEDA_RETURN_IF_FAILED(check_socket(config));
    }
    RUEDA_RETURN_IF_FAILED(check_single(config));
    return ControlPlaneChoice::single;
}

std::string notice_of_single(const LaunchFacts& facts) {
    if (facts.job_size.value_or(1) <= 1) {
        return "";
    }
    return fmt::format(
        "{} started {} processes, and RUEDA_CONTROL_PLANE is single: each of them is a job of its own, and trains "
        "alone; unset it to make one job of them",
        facts.launcher, *facts.job_size);
}

Result<SelectedControlPlane> select_control_plane(const base::Config& config,
                                                  const base::EnvironmentLookup& environment,
                                                  const Interruption& interruption, const Membership& membership,
                                                  const MpiCallRules& init_rules) {
    const LaunchFacts facts = read_launch_facts(environment);
    if (!membership.communicator.empty()) {
        RUEDA_RETURN_IF_FAILED(check_mpi_in_use(facts));
        return open_mpi(config, facts, interruption, membership, init_rules);
    }
    const auto choice = choose_control_plane(config, facts);
    if (!choice.is_ok()) {
        return choice.status();
    }
    switch (choice.value()) {
        case ControlPlaneChoice::socket:
            return open_socket(config, interruption, membership);
        case ControlPlaneChoice::mpi:
            return open_mpi(config, facts, interruption, membership, init_rules);
        case ControlPlaneChoice::single:
            break;
    }
    auto members = members_of(membership, 0, 1);
    RUEDA_RETURN_IF_FAILED(members.status());
    return SelectedControlPlane{std::make_unique<SingleControlPlane>(), notice_of_single(facts),
                                std::move(members).value(), 1};
}

}  // namespace rueda::collectives
