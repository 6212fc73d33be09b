// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "launcher/elastic/discovery.hpp"
#include "launcher/elastic/membership.hpp"
#include "launcher/elastic/remote_workers.hpp"
#include "launcher/jobs/job_note.hpp"
#include "launcher/plan/plan.hpp"
#include "launcher/processes/held_port.hpp"
#include "launcher/watch/rank_group.hpp"
#include "launcher/watch/rank_notifications.hpp"
#include "launcher/watch/rank_process.hpp"

namespace rueda::launcher {

/// The workers of an elastic job (docs/design/0028-elastic-jobs.md). Workers of this host are children of ruedarun; the
/// class RemoteWorkers manages the workers of other hosts. The class Membership makes all decisions. This class carries
/// them out: it starts the programs, and passes messages between the programs and Membership.
///
/// An elastic job can continue after the end of a worker. As long as the job continues, take_ends() returns nothing.
/// When Membership has ended the job, take_ends() returns the ends of workers that decide how the job has ended.
class ElasticRanks final : public RankGroup {
public:
    ElasticRanks(const LaunchPlan& plan, StartContext context);

    [[nodiscard]] Status start(JobOutput& output) override;
    void add_to(base::PollSet& set) override;
    /// Ends the other processes in the process group of a worker that has ended. They must not continue while the job
    /// runs, because they may use GPUs and memory. If the worker was a script, its training program may also still take
    /// part in the old generation.
    void child_ends(pid_t pid, bool is_well) override;
    void child_ended(pid_t pid, int wait_status) override;
    /// After a signal that ends programs, this class starts no more workers, and workers that wait for the next
    /// generation do not become members.
    void signal_ranks(int signal_number) override;
    /// Does nothing, because this class itself notifies the members of a generation.
    void notify_ranks(const RankNotifications::Item& /*item*/) override {}
    void watch_closely() override {}  // nothing to do, because RemoteWorkers always watches its connections closely
    [[nodiscard]] std::vector<RankEnd> take_ends() override;
    [[nodiscard]] std::vector<std::int32_t> running() const override;
    [[nodiscard]] bool may_start_ranks() const override { return !is_ending() || !ends_.empty(); }
    [[nodiscard]] bool has_started() const override { return has_started_; }
    void release(TimePoint now) override;
    void advance(TimePoint now) override;
    [[nodiscard]] bool is_gone() const override { return workers_.empty() && (!remote_ || remote_->is_gone()); }

private:
    struct Worker {
        std::optional<RankProcess> process;  ///< the program of the worker; empty if it runs on another host
        int rank = -1;                       ///< the worker's rank in its last generation; −1 if it was not a member
                                             ///< yet
        int generation = -1;
        int first_generation = -1;  ///< the first generation in which the worker was a member
        bool is_dismissed = false;
        std::optional<TimePoint> kill_at;
    };

    /// The socket or the addresses at which the ranks of a generation meet.
    struct RendezvousPlace {
        std::string rendezvous;  ///< the value of RUEDA_RENDEZVOUS
        MasterAddress master;
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
    [[nodiscard]] Status prepare_for_other_hosts();
    void set_slots(const std::vector<Host>& hosts);
    [[nodiscard]] bool is_here(const std::string& host) const;
    void notify(int number, const Worker& worker, std::string_view notification);
    void signal(int number, Worker& worker, int signal_number);
    [[nodiscard]] std::vector<EnvironmentChange> variables_of_newcomer() const;
    [[nodiscard]] Status start_worker(int number, const std::string& host);
    [[nodiscard]] RendezvousPlace rendezvous_place(const std::vector<Membership::Member>& members,
                                                   bool has_several_hosts);
    void note_hosts(const std::vector<Membership::Member>& members);
    void give_up_rendezvous(const std::vector<Membership::Member>& members);
    [[nodiscard]] static std::uint16_t hold(std::optional<HeldPort>& port);
    [[nodiscard]] std::string key_of_host(int number) const;
    void note_end(std::map<int, Worker>::iterator ended, RankEnd end);
    void settle_ends();
    void notify_members(const std::vector<RankEnd>& ends);
    void say_once(const std::string& line);

    const LaunchPlan& plan_;
    StartContext context_;
    const std::string own_host_key_;  ///< host_key() of this host
    Membership membership_;
    Discovery discovery_;
    JobOutput* output_ = nullptr;
    base::UniqueFd null_;
    std::map<int, Worker> workers_;        ///< indexed by the worker's number
    std::optional<RemoteWorkers> remote_;  ///< the workers of other hosts; empty if the job uses only this host
    std::vector<int> waiting_;             ///< workers that have reported that they wait, before Membership was told
    struct NumberedEnd {
        int worker = 0;
        int generation = -1;
        RankEnd end{};
    };
    std::vector<NumberedEnd> fresh_;  ///< ends of workers that were not yet reported to Membership
    std::vector<NumberedEnd> held_;   ///< ends that were reported to Membership since the current generation was formed
    std::vector<RankEnd> ends_;       ///< what take_ends() returns
    RankNotifications notifications_;
    std::optional<HeldPort> master_port_;  ///< reserves MASTER_PORT of the current generation, if rank 0 is on this
                                           ///< host
    std::optional<HeldPort> rendezvous_port_;
    std::string rendezvous_secret_;  ///< the secret by which ranks on several hosts recognise each other
    std::string job_token_;          ///< the text by which `rueda top` recognises the job on its hosts; not a secret
    JobNote job_note_;
    std::set<std::string> said_;
    std::map<std::string, int> slots_;  ///< the slots of each host
    bool has_started_ = false;
    bool stopping_ = false;
};

}  // namespace rueda::launcher
