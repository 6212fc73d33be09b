// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/connection/control_address.hpp"
#include "launcher/processes/acceptor.hpp"
#include "launcher/start/host_agents.hpp"
#include "launcher/start/newcomers.hpp"
#include "launcher/start/remote_output.hpp"
#include "launcher/watch/rank_end.hpp"

namespace rueda::launcher {

/// The workers of an elastic job that run on other hosts (docs/design/0028-elastic-jobs.md). Workers of a host that are
/// started together have one agent, which ruedarun starts through ssh. Each worker has a supervisor, which connects to
/// ruedarun. This connection carries the worker's output, the notifications for the worker, and the reports that the
/// worker waits or has ended.
///
/// If a host becomes unreachable, ruedarun closes the connection after FrameLink::kAnswerTime, and the worker counts as
/// ended. The supervisor on that host notices that the connection is closed or that ruedarun is silent. It then ends
/// the worker. Threads: only one thread may use an object.
class RemoteWorkers {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    RemoteWorkers(const LaunchPlan& plan, const StartContext& context) : plan_(plan), context_(context) {}

    /// Listens for the supervisors. `output` must outlive this object. `secret` is the secret by which the ranks
    /// recognise each other when they meet.
    [[nodiscard]] Status listen(JobOutput& output, const std::string& secret);
    /// Adds a worker, which start_added() starts. If the worker cannot be started, take_ends() says why. `slots`: the
    /// number of ranks among which the host's cores are divided. `variables`: environment variables for the program.
    void add(int worker, const std::string& host, int slots, std::vector<EnvironmentChange> variables);
    /// Starts the workers that were added, with one ssh for each host. sshd would refuse some of many connections that
    /// arrive together (MaxStartups, usually 10).
    void start_added(TimePoint now);
    void notify(int worker, std::string_view notification);
    /// Lets the worker's supervisor keep a note for `rueda top`; see JobNote.
    void note_job(int worker, std::string_view text);
    /// Sends the notification to a worker that can no longer become a member of a generation. If the worker's
    /// supervisor has not connected yet, the worker is not started.
    void dismiss(int worker, std::string_view notification);
    /// Sends a signal to the worker. If the signal ends programs and the worker's supervisor has not connected yet, the
    /// worker is not started any more.
    void signal(int worker, int signal_number);

    void add_to(base::PollSet& set);
    void child_ended(pid_t pid, int wait_status);
    void advance(TimePoint now);
    /// Returns the workers that began to wait for the next generation since the last call.
    [[nodiscard]] std::vector<int> take_waits() { return std::exchange(waits_, {}); }
    /// Returns the workers that have ended since the last call. RankEnd::rank is the number of the worker.
    /// If the connection to a worker is lost, its program may still run for up to kLostTime, and use memory that it
    /// shares with the other workers of its host. If one of these other workers is still running, the end of the lost
    /// worker is returned only after kLostTime, so that nobody reuses the memory too early.
    [[nodiscard]] std::vector<RankEnd> take_ends(TimePoint now);

    /// Returns what the worker's supervisor reported when the worker began to wait: its host, and the ports that it has
    /// reserved. Call this only while the worker waits.
    [[nodiscard]] const Greeting& greeting_of(int worker) const { return workers_.at(worker).greeting; }
    /// Returns the addresses of both ends of the connection to the worker's supervisor.
    [[nodiscard]] ConnectionEnds connection_of(int worker) const {
        return ends_of_connection(workers_.at(worker).link.fd());
    }

    /// Lets the supervisors exit. Call this when the job is over.
    void release(TimePoint now);
    /// Whether all agents have exited, and all supervisors have exited or the time limit for them has passed. Call this
    /// after release().
    [[nodiscard]] bool is_gone() const;

private:
    /// How long the program of a lost worker may still run. The worker's supervisor notices after
    /// FrameLink::kAnswerTime that the connection is lost, and then kills the program.
    static constexpr std::chrono::milliseconds kLostTime = FrameLink::kAnswerTime + std::chrono::seconds(1);

    struct Worker {
        std::string host;  ///< the host's name, as the user or the script has written it
        int slots = 1;
        int agent = -1;  ///< the number of the first worker that the same agent starts; −1: the agent was not started
                         ///< yet
        std::vector<EnvironmentChange> variables;  ///< for the program
        TimePoint report_by;                       ///< when the worker's supervisor must have connected at the latest
        FrameLink link;                            ///< the link to the supervisor; open from the supervisor's first
                                                   ///< frame until the supervisor has exited
        Greeting greeting;                         ///< what the supervisor reported last
        pid_t pid = 0;                             ///< on the worker's host
        bool has_reported = false;
        bool ended = false;
        std::optional<TimePoint> lost_until;  ///< The time until which take_ends() may delay the end of a lost worker.
                                              ///< Empty if the worker is not lost, or its end was returned.
        RemoteOutput output;
    };

    void take_hello(FrameLink link, const Frame& hello);
    void take_reports(int number);
    void take_report(int number, Worker& worker, const Frame& frame);
    void end(int number, RankEnd end);
    void report(const Worker& worker, RankEnd end);
    void lose(int number);
    /// Ends the ssh to an agent if no worker needs the agent any more.
    void stop_unneeded(int agent);
    [[nodiscard]] bool has_living_neighbour(const std::string& host_key) const;
    void start_agent(HostPlan& agent);
    [[nodiscard]] RankEnd end_of(int number, int wait_status) const;

    const LaunchPlan& plan_;
    const StartContext& context_;
    JobOutput* output_ = nullptr;
    std::vector<EnvironmentChange> secrets_;  ///< variables for the supervisors
    std::optional<Newcomers> newcomers_;
    Acceptor acceptor_;
    HostAgents agents_;
    /// Indexed by the worker's number. An element is removed when the worker's supervisor has exited and take_ends()
    /// has returned the worker's end. Until then, greeting_of() may be called for the worker.
    std::map<int, Worker> workers_;
    std::vector<int> waits_;
    std::vector<RankEnd> ends_;
    bool has_lost_host_ = false;
    TimePoint link_deadline_;  ///< The time at which all connections must have ended. Used only after release().
    bool links_expired_ = false;
};

}  // namespace rueda::launcher
