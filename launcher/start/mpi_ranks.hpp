// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <memory>

#include "base/unique_fd.hpp"
#include "launcher/plan/plan.hpp"
#include "launcher/processes/acceptor.hpp"
#include "launcher/start/mpirun.hpp"
#include "launcher/supervisor/supervisor_protocol.hpp"
#include "launcher/watch/rank_group.hpp"

namespace rueda::launcher {

/// Ranks of this host under mpirun, each behind a supervisor that reports to ruedarun (supervisor.hpp).
class MpiRanks final : public RankGroup {
public:
    MpiRanks(const LaunchPlan& plan, StartContext context);

    [[nodiscard]] Status start(JobOutput& output) override;
    void add_to(PollSet& set) override;
    void child_ended(pid_t pid, int wait_status) override;
    void signal_ranks(int signal_number) override;
    void tell_ranks(const RankNotifications::Item& item) override;
    void watch_closely() override {}  // they are on this host: the kernel reports every end at once
    [[nodiscard]] std::vector<RankEnd> take_ends() override { return std::exchange(ends_, {}); }
    [[nodiscard]] std::vector<std::int32_t> running() const override;
    [[nodiscard]] bool has_started() const override;
    void release(TimePoint now) override;
    void advance(TimePoint now) override;
    [[nodiscard]] bool is_gone() const override { return mpirun_.is_released() && mpirun_.is_gone(); }

private:
    struct Rank {
        base::UniqueFd socket;  ///< open from hello until the supervisor has gone
        pid_t pid = 0;          ///< 0: not yet started
        bool ended = false;
        std::string abort_reason;  ///< as the rank has said
        base::StepSpan steps;      ///< likewise
        OomKills oom_kills;        ///< as its supervisor has said
    };

    void meet_newcomer(base::UniqueFd socket);
    void take_hello(std::size_t newcomer);
    void welcome(int rank, base::UniqueFd socket);
    void take_report(int rank);
    void tell_rank(int rank, const RankNotifications::Item& item);
    void end_rank(RankEnd end);
    [[nodiscard]] bool all_connected() const;

    const LaunchPlan& plan_;
    StartContext context_;
    JobOutput* output_ = nullptr;
    Acceptor acceptor_;
    Mpirun mpirun_;
    std::vector<base::UniqueFd> newcomers_;  ///< connected, but have not said hello
    std::vector<Rank> ranks_;
    std::vector<RankEnd> ends_;
};

}  // namespace rueda::launcher
