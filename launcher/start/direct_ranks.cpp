// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/start/direct_ranks.hpp"

#include <fcntl.h>

#include <algorithm>

#include "launcher/processes/child_process.hpp"

namespace rueda::launcher {

Status DirectRanks::start(JobOutput& output) {
    const base::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!null.is_open()) {
        return system_failure(ErrorCode::internal, "open(/dev/null)");
    }
    for (int rank = 0; rank < plan_.ranks; ++rank) {
        RUEDA_RETURN_IF_FAILED(start_rank(rank, null.value(), output));
    }
    return {};
}

Status DirectRanks::start_rank(int rank, int null_fd, JobOutput& output) {
    const Result<RankDescriptors> descriptors = output.open_rank(rank);
    RUEDA_RETURN_IF_FAILED(descriptors.status());
    ChildSpec spec;
    spec.file = context_.program_file;
    spec.words = plan_.program;
    spec.environment = changed_environment(changed_environment(context_.environment, plan_.environment),
                                           rank_environment(plan_, rank));
    // If this ruedarun runs in a rank of another job, kJobVariable describes that other job. So the variable is
    // removed.
    spec.environment = changed_environment(std::move(spec.environment), {{kJobVariable, std::nullopt}});
    spec.stdin_fd = rank == 0 && plan_.first_rank_reads_stdin ? kInherit : null_fd;
    spec.stdout_fd = descriptors.value().standard_output.value();
    spec.stderr_fd = descriptors.value().standard_error.value();
    spec.own_group = plan_.own_groups;
    spec.signal_mask = context_.signal_mask;
    RankProcess process(context_.read);
    RUEDA_RETURN_IF_FAILED(process.open_line(rank, plan_.ranks));
    int error_number = 0;
    const Status started = process.start(std::move(spec), error_number);
    if (error_number != 0) {
        ends_.push_back(not_started(rank, plan_.program.front(), error_number));
        return {};
    }
    RUEDA_RETURN_IF_FAILED(started);
    running_.emplace(rank, std::move(process));
    has_started_ = true;
    return {};
}

void DirectRanks::child_ended(pid_t pid, int wait_status) {
    const auto found =
        std::find_if(running_.begin(), running_.end(), [pid](const auto& entry) { return entry.second.pid() == pid; });
    if (found != running_.end()) {
        ends_.push_back(found->second.end(found->first, wait_status));
        running_.erase(found);
    }
}

void DirectRanks::notify_ranks(const RankNotifications::Item& item) {
    for (const auto& [rank, process] : running_) {
        process.notify(item.notification);
    }
}

void DirectRanks::signal_ranks(int signal_number) {
    for (auto& [rank, process] : running_) {
        process.signal(signal_number);
    }
}

std::vector<std::int32_t> DirectRanks::running() const {
    std::vector<std::int32_t> ranks;
    for (const auto& [rank, process] : running_) {
        ranks.push_back(rank);
    }
    return ranks;
}

}  // namespace rueda::launcher
