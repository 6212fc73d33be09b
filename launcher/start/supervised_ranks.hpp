// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "base/unique_fd.hpp"
#include "launcher/connection/control_address.hpp"
#include "launcher/plan/plan.hpp"
#include "launcher/processes/acceptor.hpp"
#include "launcher/start/master_choice.hpp"
#include "launcher/start/newcomers.hpp"
#include "launcher/start/rank_starter.hpp"
#include "launcher/start/remote_output.hpp"
#include "launcher/supervisor/frame_link.hpp"
#include "launcher/watch/rank_group.hpp"

namespace rueda::launcher {

/// Ranks that mpirun starts, on one or several hosts, or that the agents of several hosts start without MPI. Each rank
/// has a supervisor as its parent (supervisor.hpp), which reports to ruedarun over a FrameLink. If all ranks are on
/// this host, the link is a Unix socket. Over this socket, each rank gets ruedarun's descriptors for its output, for
/// example the terminal. If there are several hosts, the link is a TCP connection, and the supervisor sends the rank's
/// output over it.
class SupervisedRanks final : public RankGroup {
public:
    SupervisedRanks(const LaunchPlan& plan, StartContext context);

    [[nodiscard]] Status start(JobOutput& output) override;
    void add_to(base::PollSet& set) override;
    void child_ended(pid_t pid, int wait_status) override;
    void signal_ranks(int signal_number) override;
    void notify_ranks(const RankNotifications::Item& item) override;
    void watch_closely() override;
    [[nodiscard]] std::vector<RankEnd> take_ends() override { return std::exchange(ends_, {}); }
    [[nodiscard]] std::vector<std::int32_t> running() const override;
    [[nodiscard]] bool has_started() const override;
    void release(TimePoint now) override;
    void advance(TimePoint now) override;
    [[nodiscard]] bool is_gone() const override;

private:
    struct Rank {
        FrameLink link;        ///< the link to the supervisor; it is open from the supervisor's first frame until the
                               ///< supervisor has exited
        std::string host;      ///< the name that the supervisor reported, for messages
        std::string host_key;  ///< the host's key (host_key()), which is equal for all ranks of one host
        std::string gpus;      ///< the GPUs of the rank's host, as the supervisor reported them (rank_gpus.hpp)
        pid_t pid = 0;         ///< the process number of the program on the rank's own host; 0: the program has not
                               ///< started
        bool has_reported = false;
        bool ended = false;
        RemoteOutput output;
    };
    [[nodiscard]] bool is_on_this_host() const { return plan_.shares.empty(); }
    [[nodiscard]] Rank& rank_at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
    [[nodiscard]] const Rank& rank_at(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
    void take_hello(FrameLink link, const Frame& hello);
    [[nodiscard]] Status open_output(int rank);
    void welcome_when_ready();
    [[nodiscard]] Status start_starter(const ControlAddress& address);
    void note_end(const RankStarter::End& end);
    [[nodiscard]] Status add_gpus(const TorchPlace& place, std::vector<EnvironmentChange>& variables);
    [[nodiscard]] bool has_to_test_addresses() const;
    void test_addresses();
    void welcome();
    [[nodiscard]] std::string master_address() const;
    [[nodiscard]] std::string usual_master_address() const;
    void take_reports(int rank);
    void take_report(int rank, const Frame& frame);
    void take_output(int rank, const Frame& frame);
    void lose(int rank);
    void notify_rank(int rank, const RankNotifications::Item& item);
    void end_rank(RankEnd end);
    void give_up_on_absent_ranks();
    [[nodiscard]] RankEnd end_of(int rank, int wait_status) const;

    const LaunchPlan& plan_;
    StartContext context_;
    JobOutput* output_ = nullptr;
    std::optional<Newcomers> newcomers_;  ///< The connections whose ranks are not known yet. start() makes the
                                          ///< object, unless start() fails before that.
    Acceptor acceptor_;
    std::unique_ptr<RankStarter> starter_;
    std::vector<Rank> ranks_;
    std::vector<RankEnd> ends_;
    TimePoint start_deadline_;  ///< when all supervisors must have reported
    TimePoint link_deadline_;   ///< the deadline for the ends of all links; valid after release()
    bool links_expired_ = false;
    bool is_watched_closely_ = false;
    bool has_lost_host_ = false;  ///< whether a host did not answer for too long, so that its link was shut down
    bool welcomed_ = false;       ///< whether the supervisors were told to start their programs
    bool start_failed_ = false;  ///< whether something failed before the programs were started; if so, the programs are
                                 ///< not started at all
    std::uint16_t master_port_ = 0;              ///< the port that rank 0's supervisor has reserved for its program; 0:
                                                 ///< none
    std::vector<std::string> master_endpoints_;  ///< the addresses at which rank 0's supervisor listens, so that other
                                                 ///< hosts can test whether they reach them
    std::optional<MasterChoice> master_choice_;  ///< Has a value after ruedarun has asked the other hosts to try the
                                                 ///< addresses of rank 0's host.
    std::string rendezvous_;                     ///< the addresses at which the ranks meet, as rank 0's host reports
                                                 ///< them; empty: the ranks meet over MPI
};

}  // namespace rueda::launcher
