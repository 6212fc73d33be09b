// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/watch/rank_process.hpp"

#include <csignal>
#include <utility>

#include "base/launcher_notification.hpp"

namespace rueda::launcher {

Status RankProcess::open_line(int rank, int ranks) {
    RUEDA_RETURN_IF_FAILED(line_.open());
    line_address_ = line_.address(rank, ranks);
    return {};
}

Status RankProcess::start(ChildSpec spec, int& error_number) {
    // If ruedarun runs inside a rank of another job, the environment contains kLauncherVariable with the value of that
    // rank. So the variable is removed.
    spec.environment.erase(base::kLauncherVariable);
    if (!line_address_.empty()) {
        spec.environment[base::kLauncherVariable] = line_address_;
        spec.kept_fd = line_.child_fd();
    }
    has_own_group_ = spec.own_group;
    oom_watch_.begin();
    const Result<pid_t> child = start_child(spec, &error_number);
    line_.close_child_end();
    RUEDA_RETURN_IF_FAILED(child.status());
    pid_ = child.value();
    return {};
}

void RankProcess::signal(int signal_number) {
    kill_sent_ = kill_sent_ || signal_number == SIGKILL;
    if (pid_ != 0) {
        ::kill(has_own_group_ ? -pid_ : pid_, signal_number);
    }
}

void RankProcess::end_group(bool politely) const {
    if (pid_ == 0 || !has_own_group_) {
        return;
    }
    ::kill(-pid_, politely ? SIGTERM : SIGKILL);
    if (politely) {
        ::kill(-pid_, SIGCONT);  // a stopped process does not react to SIGTERM
    }
}

RankEnd RankProcess::end(int rank, int wait_status) {
    RankEnd end;
    end.rank = rank;
    end.pid = std::exchange(pid_, 0);
    end.wait_status = wait_status;
    end.abort_reason = line_.take_abort_reason();
    end.steps = line_.steps();
    end.oom_kills = oom_watch_.look(wait_status, kill_sent_);
    return end;
}

}  // namespace rueda::launcher
