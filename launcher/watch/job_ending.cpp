// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/watch/job_ending.hpp"

#include <csignal>

namespace rueda::launcher {

bool ends_programs(int signal_number) {
    return signal_number == SIGINT || signal_number == SIGTERM || signal_number == SIGQUIT || signal_number == SIGHUP ||
           signal_number == SIGKILL;
}

void JobEnding::rank_failed(TimePoint now) {
    if (phase_ == Phase::running) {
        begin_grace(now, grace_);
    } else if (phase_ == Phase::grace) {
        deadline_ = grace_began_ + grace_;
    }
}

void JobEnding::job_aborted(TimePoint now) {
    if (phase_ == Phase::running) {
        begin_grace(now, grace_after_abort_);
    }
}

int JobEnding::user_signal(int signal_number, TimePoint now) {
    if (phase_ == Phase::running || phase_ == Phase::grace) {
        enter(Phase::interrupted, now + kInterruptTime);
        return signal_number;
    }
    if (phase_ != Phase::given_up) {
        enter(Phase::killing, now + kKillTime);
    }
    return SIGKILL;
}

std::optional<int> JobEnding::advance(TimePoint now) {
    if (!deadline() || now < deadline_) {
        return std::nullopt;
    }
    if (phase_ == Phase::grace) {
        enter(Phase::terminating, now + kTerminateTime);
        return SIGTERM;
    }
    if (phase_ == Phase::killing) {
        enter(Phase::given_up, now);
        return std::nullopt;
    }
    enter(Phase::killing, now + kKillTime);
    return SIGKILL;
}

std::optional<JobEnding::TimePoint> JobEnding::deadline() const {
    if (phase_ == Phase::running || phase_ == Phase::given_up) {
        return std::nullopt;
    }
    return deadline_;
}

}  // namespace rueda::launcher
