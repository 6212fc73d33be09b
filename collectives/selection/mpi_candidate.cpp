// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <string>
#include <utility>

#include "base/system/logging.hpp"
#include "collectives/mpi/load_plugin.hpp"
#include "collectives/selection/control_plane_candidate.hpp"
#include "collectives/wire.hpp"

namespace rueda::collectives {
namespace {

bool is_mpi_indicated(const StartRequest& request) {
    return request.has_communicator() || request.facts.mpi_initialized || !request.facts.launcher.empty();
}

/// Whether MPI can be used. If the caller passes a communicator, this process must already use an MPI. Without a
/// communicator, Rueda can load an MPI itself.
Status is_mpi_viable(const StartRequest& request) {
    if (!request.has_communicator()) {
        return {};
    }
    if (!request.facts.abi) {
        return failure(ErrorCode::unsupported,
                       "init: a communicator was given, and this process has not loaded MPI; expected the MPI that "
                       "made the communicator");
    }
    return request.facts.mpi_initialized
               ? Status()
               : failure(ErrorCode::invalid_argument,
                         "init: a communicator was given, and MPI is not initialised: call MPI_Init_thread(..., "
                         "MPI_THREAD_MULTIPLE, ...) before");
}

/// Compares the number of ranks in MPI with the number that were launched. If launcher and plugin belong to different
/// MPIs, MPI tells every process that it is alone. Without this check, every process would be a job of size 1 and train
/// alone.
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

/// Makes the start fail on all ranks if one rank has found an error. Otherwise the other ranks would wait for that
/// rank. Possibly only one rank finds the error, because settings can differ between ranks.
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

Result<SelectedControlPlane> open_mpi(const StartRequest& request) {
    const base::Config& config = request.config;
    const LaunchFacts& facts = request.facts;
    auto plugin = load_mpi_plugin(config.mpi_library, facts.abi);
    if (!plugin.is_ok()) {
        const std::string why = facts.launcher.empty() ? "" : fmt::format("started by {}, but ", facts.launcher);
        return failure(plugin.status().code(), "{}{}", why, plugin.status().message());
    }
    MpiControlPlaneOptions options;
    options.operation_timeout = start_timeout(config);
    options.interruption = request.interruption;
    options.membership = request.membership;
    options.init_rules = request.init_rules;
    options.init_rules.rank = facts.job_rank.value_or(-1);
    options.init_rules.size = facts.job_size.value_or(0);
    options.warn = [logger = base::Logger(config, facts.job_rank)](const std::string& text) {
        logger.warning("{}", text);
    };
    // MPI is finalised only at exit. The program may call rueda::init() again after rueda::shutdown(), but MPI cannot
    // be initialised twice in a process.
    options.finalize = MpiFinalize::at_exit;
    auto opened = plugin.value()->open(options);
    if (!opened.is_ok()) {
        return opened.status();
    }
    SelectedControlPlane selected{std::move(opened.value().control_plane), std::move(opened.value().notice),
                                  std::move(opened.value().launch_ranks), opened.value().launch_size,
                                  std::move(opened.value().note)};
    if (Status status = agree(*selected.control_plane, check_mpi_size(selected, config, facts)); !status.is_ok()) {
        selected.control_plane->close(status.code() == ErrorCode::aborted || status.code() == ErrorCode::timeout);
        return status;
    }
    return selected;
}

}  // namespace

const ControlPlaneCandidate kMpiCandidate{base::ControlPlaneKind::mpi, /*takes_communicators=*/true, is_mpi_indicated,
                                          is_mpi_viable, open_mpi};

}  // namespace rueda::collectives
