// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/start/direct_ranks.hpp"

#include <fcntl.h>

#include <algorithm>

#include "base/launcher_notification.hpp"
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
    spec.stdin_fd = rank == 0 && plan_.first_rank_reads_stdin ? kInherit : null_fd;
    spec.stdout_fd = descriptors.value().standard_output.value();
    spec.stderr_fd = descriptors.value().standard_error.value();
    spec.own_group = plan_.own_groups;
    spec.signal_mask = context_.signal_mask;
    RankLine line;
    RUEDA_RETURN_IF_FAILED(line.open());
    spec.environment[base::kLauncherVariable] = line.address(rank, plan_.ranks);
    spec.kept_fd = line.child_fd();
    OomWatch& oom_watch = oom_watches_.try_emplace(rank, context_.read).first->second;
    oom_watch.begin();
    int error_number = 0;
    const Result<pid_t> child = start_child(spec, &error_number);
    line.close_child_end();
    if (error_number != 0) {
        ends_.push_back(not_started(rank, plan_.program.front(), error_number));
        return {};
    }
    RUEDA_RETURN_IF_FAILED(child.status());
    pids_.emplace(child.value(), rank);
    lines_.emplace(rank, std::move(line));
    has_started_ = true;
    return {};
}

void DirectRanks::child_ended(pid_t pid, int wait_status) {
    if (const auto found = pids_.find(pid); found != pids_.end()) {
        RankEnd end{found->second, pid, wait_status, "", false};
        end.abort_reason = lines_[found->second].take_abort_reason();
        end.steps = lines_[found->second].steps();
        end.oom_kills = oom_watches_.at(found->second).look(wait_status, kill_sent_);
        lines_.erase(found->second);
        ends_.push_back(std::move(end));
        pids_.erase(found);
    }
}

void DirectRanks::tell_ranks(const RankNotifications::Item& item) {
    for (const auto& [rank, line] : lines_) {
        line.tell(item.word);
    }
}

void DirectRanks::signal_ranks(int signal_number) {
    kill_sent_ = kill_sent_ || signal_number == SIGKILL;
    for (const auto& [pid, rank] : pids_) {
        ::kill(plan_.own_groups ? -pid : pid, signal_number);
    }
}

std::vector<std::int32_t> DirectRanks::running() const {
    std::vector<std::int32_t> ranks;
    for (const auto& [pid, rank] : pids_) {
        ranks.push_back(rank);
    }
    return ranks;
}

}  // namespace rueda::launcher
