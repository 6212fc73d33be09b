// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <memory>

#include "base/unique_fd.hpp"
#include "launcher/plan/plan.hpp"
#include "launcher/processes/acceptor.hpp"
#include "launcher/start/mpirun.hpp"
#include "launcher/supervisor/frame_link.hpp"
#include "launcher/watch/rank_group.hpp"

namespace rueda::launcher {

/// Ranks of several hosts under mpirun, each behind a supervisor that reports over TCP and sends the rank's output the
/// same way.
class NetworkRanks final : public RankGroup {
public:
    NetworkRanks(const LaunchPlan& plan, StartContext context);

    [[nodiscard]] Status start(JobOutput& output) override;
    void add_to(PollSet& set) override;
    void child_ended(pid_t pid, int wait_status) override;
    void signal_ranks(int signal_number) override;
    void tell_ranks(const RankNotifications::Item& item) override;
    void watch_closely() override;
    [[nodiscard]] std::vector<RankEnd> take_ends() override { return std::exchange(ends_, {}); }
    [[nodiscard]] std::vector<std::int32_t> running() const override;
    [[nodiscard]] bool has_started() const override;
    void release(TimePoint now) override;
    void advance(TimePoint now) override;
    [[nodiscard]] bool is_gone() const override;

private:
    struct Rank {
        FrameLink link;        ///< open from hello until the supervisor has gone
        std::string host;      ///< as it calls itself; for lines to the user
        std::string host_key;  ///< by which ranks of one host are recognised
        pid_t pid = 0;         ///< on its host; 0: not yet started
        bool met = false;
        bool ended = false;
        std::string abort_reason;  ///< as the rank has said
        base::StepSpan steps;      ///< likewise
        OomKills oom_kills;        ///< as its supervisor has said
        std::array<bool, 2> output_stopped{};
        std::size_t unacknowledged = 0;  ///< bytes of output that more_output has not answered
    };
    /// Connected, but has not shown that it knows the secret.
    struct Newcomer {
        FrameLink link;
        TimePoint deadline;
    };

    void meet_newcomer(base::UniqueFd socket);
    void take_hello(Newcomer& newcomer);
    void welcome_all_once_met();
    [[nodiscard]] std::string master_address() const;
    void take_reports(int rank);
    void take_report(int rank, const Frame& frame);
    void lose(int rank);
    void lose_broken_links();
    void tell_rank(int rank, const RankNotifications::Item& item);
    void end_rank(RankEnd end);
    void ask_for_more_output();
    void stop_output_that_nobody_reads();
    void give_up_on_absent_ranks();
    [[nodiscard]] RankEnd end_of(int rank, int wait_status) const;
    [[nodiscard]] std::string host(int rank) const { return host_of(plan_, rank); }

    const LaunchPlan& plan_;
    StartContext context_;
    JobOutput* output_ = nullptr;
    std::string secret_;
    Acceptor acceptor_;
    Mpirun mpirun_;
    std::vector<std::unique_ptr<Newcomer>> newcomers_;
    std::vector<Rank> ranks_;
    std::vector<RankEnd> ends_;
    TimePoint start_deadline_;  ///< for all supervisors to have met us
    TimePoint link_deadline_;   ///< after release(), for the links to end
    bool links_expired_ = false;
    bool is_watched_closely_ = false;
    bool welcomed_ = false;          ///< all supervisors, which start their programs then
    bool start_failed_ = false;      ///< before that: no program runs, and none will
    std::uint16_t master_port_ = 0;  ///< as the supervisor of rank 0 has told; 0: it has none
};

}  // namespace rueda::launcher
