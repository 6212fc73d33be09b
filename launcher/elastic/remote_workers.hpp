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
/// ruedarun. Over this connection go the worker's output, the notifications for it, and reports that it waits or has
/// ended.
///
/// If a host becomes unreachable, ruedarun closes the connection after FrameLink::kAnswerTime, and the worker counts as
/// ended. The supervisor on that host notices the closed connection too, or that ruedarun is silent, and ends the
/// worker. Threads: only one thread may use an object.
class RemoteWorkers {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    RemoteWorkers(const LaunchPlan& plan, const StartContext& context) : plan_(plan), context_(context) {}

    /// Listens for the supervisors. `output` must outlive this object. `secret`: that of the rendezvous of the ranks.
    [[nodiscard]] Status listen(JobOutput& output, const std::string& secret);
    /// Adds a worker, which start_added() starts. If it does not start, take_ends() says why. `slots`: the number of
    /// ranks among which the host's cores are divided. `variables`: for the program.
    void add(int worker, const std::string& host, int slots, std::vector<EnvironmentChange> variables);
    /// Starts the workers that were added, with one ssh for each host: sshd refuses some connections if many come
    /// together (MaxStartups, usually 10).
    void start_added(TimePoint now);
    void notify(int worker, std::string_view notification);
    /// Lets the worker's supervisor keep a note for `rueda top`; see JobNote.
    void note_job(int worker, std::string_view text);
    /// Notifies a worker that gets no place any more. If its supervisor has not reported yet, the worker is not
    /// started.
    void dismiss(int worker, std::string_view notification);
    /// Sends a signal to the worker. A worker whose supervisor has not reported yet is not started any more, if the
    /// signal ends programs.
    void signal(int worker, int signal_number);

    void add_to(base::PollSet& set);
    void child_ended(pid_t pid, int wait_status);
    void advance(TimePoint now);
    /// Returns the workers that have begun to wait for a place since the last call.
    [[nodiscard]] std::vector<int> take_waits() { return std::exchange(waits_, {}); }
    /// Returns the workers that have ended since the last call. RankEnd::rank is the number of the worker.
    /// If a worker is lost, but other workers of its host are not, its end is returned after kLostTime: its program may
    /// live until then, and the others must not use the memory of the host again before.
    [[nodiscard]] std::vector<RankEnd> take_ends(TimePoint now);

    /// Returns what the worker's supervisor reported when the worker began to wait: its host, and the ports that it has
    /// reserved. The worker must wait.
    [[nodiscard]] const Greeting& greeting_of(int worker) const { return workers_.at(worker).greeting; }
    /// Returns the addresses of both ends of the connection to the worker's supervisor.
    [[nodiscard]] ConnectionEnds connection_of(int worker) const {
        return ends_of_connection(workers_.at(worker).link.fd());
    }

    /// Lets the supervisors exit. Call this when the job is over.
    void release(TimePoint now);
    /// Whether all supervisors and agents have exited, as far as ruedarun waits for them. Call this after release().
    [[nodiscard]] bool is_gone() const;

private:
    /// The supervisor of a lost worker notices the loss of the connection after FrameLink::kAnswerTime, and then kills
    /// the program.
    static constexpr std::chrono::milliseconds kLostTime = FrameLink::kAnswerTime + std::chrono::seconds(1);

    struct Worker {
        std::string host;  ///< the name that the user or the script has given the host
        int slots = 1;
        int agent = -1;  ///< the first worker that the same agent starts; −1: not started yet
        std::vector<EnvironmentChange> variables;  ///< for the program
        TimePoint report_by;                       ///< when the supervisor must have connected
        FrameLink link;                            ///< open from the supervisor's hello until the supervisor has exited
        Greeting greeting;                         ///< what the supervisor reported last
        pid_t pid = 0;                             ///< on the worker's host
        bool has_reported = false;
        bool ended = false;
        std::optional<TimePoint> lost_until;  ///< set if take_ends() still has to return the end of a lost worker
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
    /// A worker stays until its supervisor has exited and take_ends() has returned its end: until then the caller may
    /// ask for its greeting.
    std::map<int, Worker> workers_;
    std::vector<int> waits_;
    std::vector<RankEnd> ends_;
    bool has_lost_host_ = false;
    TimePoint link_deadline_;  ///< after release(): when all connections must have ended
    bool links_expired_ = false;
};

}  // namespace rueda::launcher
