// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <map>
#include <utility>

#include "launcher/plan/plan.hpp"
#include "launcher/watch/rank_group.hpp"
#include "launcher/watch/rank_process.hpp"

namespace rueda::launcher {

/// Ranks that ruedarun starts as its own children (`--no-mpi`).
class DirectRanks final : public RankGroup {
public:
    DirectRanks(const LaunchPlan& plan, StartContext context) : plan_(plan), context_(std::move(context)) {}

    [[nodiscard]] Status start(JobOutput& output) override;
    void add_to(base::PollSet& /*set*/) override {}
    void child_ended(pid_t pid, int wait_status) override;
    void signal_ranks(int signal_number) override;
    void notify_ranks(const RankNotifications::Item& item) override;
    void watch_closely() override {}  // nothing to do for unreachable hosts: all ranks are on this host, and the kernel
                                      // reports every end at once
    [[nodiscard]] std::vector<RankEnd> take_ends() override { return std::exchange(ends_, {}); }
    [[nodiscard]] std::vector<std::int32_t> running() const override;
    [[nodiscard]] bool has_started() const override { return has_started_; }
    void release(TimePoint /*now*/) override { running_.clear(); }
    void advance(TimePoint /*now*/) override {}
    [[nodiscard]] bool is_gone() const override { return running_.empty(); }

private:
    [[nodiscard]] Status start_rank(int rank, int null_fd, JobOutput& output);

    const LaunchPlan& plan_;
    StartContext context_;
    std::map<int, RankProcess> running_;  ///< indexed by rank
    std::vector<RankEnd> ends_;
    bool has_started_ = false;
};

}  // namespace rueda::launcher
