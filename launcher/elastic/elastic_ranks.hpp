// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "launcher/elastic/discovery.hpp"
#include "launcher/elastic/membership.hpp"
#include "launcher/plan/plan.hpp"
#include "launcher/processes/held_port.hpp"
#include "launcher/watch/rank_group.hpp"
#include "launcher/watch/rank_notifications.hpp"
#include "launcher/watch/rank_process.hpp"

namespace rueda::launcher {

/// The workers of an elastic job, which ruedarun starts as its own children (docs/design/0028-elastic-jobs.md).
/// Membership decides; this class starts the programs, and passes messages between them and Membership.
///
/// As long as the job goes on, take_ends() returns nothing: the end of a worker is not the end of the job. When
/// Membership has ended the job, take_ends() returns the ends that decide how the job has ended.
class ElasticRanks final : public RankGroup {
public:
    ElasticRanks(const LaunchPlan& plan, StartContext context);

    [[nodiscard]] Status start(JobOutput& output) override;
    void add_to(base::PollSet& set) override;
    /// Ends the other processes of the worker's process group. They must not live on while the job goes on: they may
    /// use GPUs and memory, and if the worker was a script, its training program still belongs to the old generation.
    void child_ends(pid_t pid, bool is_well) override;
    void child_ended(pid_t pid, int wait_status) override;
    /// If the signal ends programs, no worker is started any more, and workers that wait for a place get none.
    void signal_ranks(int signal_number) override;
    /// Does nothing, because this class itself notifies the members of a generation.
    void notify_ranks(const RankNotifications::Item& /*item*/) override {}
    void watch_closely() override {}  // nothing to do: all ranks are on this host
    [[nodiscard]] std::vector<RankEnd> take_ends() override;
    [[nodiscard]] std::vector<std::int32_t> running() const override;
    [[nodiscard]] bool may_start_ranks() const override { return !is_ending() || !ends_.empty(); }
    [[nodiscard]] bool has_started() const override { return has_started_; }
    void release(TimePoint /*now*/) override { workers_.clear(); }
    void advance(TimePoint now) override;
    [[nodiscard]] bool is_gone() const override { return workers_.empty(); }

private:
    struct Worker {
        RankProcess process;
        int rank = -1;  ///< its rank in its last generation; −1: it has had none
        int generation = -1;
        int first_generation = -1;  ///< the generation in which it became a rank
        bool is_dismissed = false;
        std::optional<TimePoint> kill_at;
    };

    [[nodiscard]] bool is_ending() const { return stopping_ || membership_.is_over(); }
    [[nodiscard]] std::map<int, Worker>::iterator find_worker(pid_t pid);
    void take_message(int worker);
    void carry_out(TimePoint now);
    void carry_out(const Membership::Start& start, TimePoint now);
    void carry_out(const Membership::Form& form, TimePoint now);
    void carry_out(const Membership::Tell& tell, TimePoint now);
    void carry_out(const Membership::Dismiss& dismiss, TimePoint now);
    void carry_out(const Membership::Kill& kill, TimePoint now);
    void carry_out(const Membership::End& end, TimePoint now);
    [[nodiscard]] Status start_worker(int number);
    void settle_ends();
    void notify_members(const std::vector<RankEnd>& ends);
    void say_once(const std::string& line);

    const LaunchPlan& plan_;
    StartContext context_;
    Membership membership_;
    Discovery discovery_;
    JobOutput* output_ = nullptr;
    base::UniqueFd null_;
    std::map<int, Worker> workers_;  ///< indexed by the worker's number
    struct NumberedEnd {
        int worker = 0;
        int generation = -1;
        RankEnd end{};
    };
    std::vector<NumberedEnd> fresh_;  ///< ends that Membership does not know yet
    std::vector<NumberedEnd> held_;   ///< ends of the current generation, and of workers that were no members since
    std::vector<RankEnd> ends_;       ///< what take_ends() returns
    RankNotifications notifications_;
    std::optional<HeldPort> port_;  ///< MASTER_PORT of the current generation
    std::set<std::string> said_;
    int slots_ = 0;  ///< the slots that the script printed last
    bool has_started_ = false;
    bool stopping_ = false;
};

}  // namespace rueda::launcher
