// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/elastic/remote_workers.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <csignal>

#include "launcher/plan/ssh_command.hpp"
#include "launcher/plan/torch_variables.hpp"
#include "launcher/watch/job_ending.hpp"

namespace rueda::launcher {

namespace {

/// How long the connections to supervisors may stay open after the end of the job. Supervisors still send output during
/// this time.
constexpr std::chrono::seconds kLinkTimeAfterJob{8};

/// The number of ranks that a worker's program sees until the worker becomes a member of a generation.
constexpr int kAlone = 1;

}  // namespace

Status RemoteWorkers::listen(JobOutput& output, const std::string& secret) {
    output_ = &output;
    Result<ControlListener> listener = listen_on_network(plan_.interfaces);
    RUEDA_RETURN_IF_FAILED(listener.status());
    const ControlAddress& address = listener.value().address;
    // Variables for the supervisors of the workers. The secret of the rendezvous is one of them. It must not be sent
    // over the connections of the supervisors, which are not encrypted. So the variables go through ssh. The variable
    // with the generation tells the supervisor that the job is elastic.
    secrets_ = {{kControlVariable, format_control_address(address)},
                {kRendezvousSecretVariable, secret},
                {kGenerationVariable, "0"},
                {kJobVariable, std::nullopt}};
    newcomers_.emplace(address.secret,
                       [this](FrameLink link, const Frame& hello) { take_hello(std::move(link), hello); });
    acceptor_ = Acceptor(
        std::move(listener.value().sockets), [this](base::UniqueFd socket) { newcomers_->accept(std::move(socket)); },
        [this](std::string_view line) { output_->say(line); });
    agents_.on_error_text = [this](std::string_view text) {
        if (!agents_.is_released()) {  // after release(), ssh only writes that ruedarun has ended it
            output_->pass_on_error(text);
        }
    };
    return {};
}

void RemoteWorkers::add(int worker, const std::string& host, int slots, std::vector<EnvironmentChange> variables) {
    Worker& added = workers_[worker];
    added.host = host;
    added.slots = std::max(1, slots);
    added.variables = std::move(variables);
}

void RemoteWorkers::start_added(TimePoint now) {
    std::vector<HostPlan> agents;  // the agents to start; each agent starts workers with consecutive numbers
    for (auto& [number, worker] : workers_) {
        if (worker.agent >= 0) {
            continue;
        }
        const bool is_next = !agents.empty() && agents.back().host == worker.host &&
                             agents.back().first_rank + agents.back().ranks == number;
        if (!is_next) {
            agents.push_back({worker.host, false, number, 0, {}});
        }
        ++agents.back().ranks;
        worker.agent = agents.back().first_rank;
        worker.report_by = now + plan_.start_time;
    }
    for (HostPlan& agent : agents) {
        start_agent(agent);
    }
}

void RemoteWorkers::start_agent(HostPlan& agent) {
    const std::vector<std::string> there = {plan_.supervisor_program, kAgentOption, "0"};
    agent.command = ssh_command(agent.host, plan_.ssh, there);
    const int slots = workers_.at(agent.first_rank).slots;
    const Status started = agents_.start_one(plan_, context_, secrets_, agent, slots);
    for (int number = agent.first_rank; !started.is_ok() && number < agent.first_rank + agent.ranks; ++number) {
        end(number, not_started(number, started.message()));
    }
}

void RemoteWorkers::notify(int worker, std::string_view notification) {
    const auto found = workers_.find(worker);
    if (found != workers_.end() && found->second.link.is_open() && !found->second.ended) {
        found->second.link.send(FrameKind::notification, 0, notification);
    }
}

void RemoteWorkers::note_job(int worker, std::string_view text) {
    const auto found = workers_.find(worker);
    if (found != workers_.end() && found->second.link.is_open() && !found->second.ended) {
        found->second.link.send(FrameKind::job_hosts, 0, text);
    }
}

void RemoteWorkers::signal(int worker, int signal_number) {
    const auto found = workers_.find(worker);
    if (found == workers_.end() || found->second.ended) {
        return;
    }
    if (found->second.has_reported) {
        found->second.link.send(FrameKind::deliver, signal_number);
    } else if (ends_programs(signal_number)) {
        RankEnd stopped = end_of(worker, signal_number);
        stopped.by_launcher = true;
        end(worker, std::move(stopped));
        stop_unneeded(found->second.agent);
    }
}

void RemoteWorkers::dismiss(int worker, std::string_view notification) {
    const auto found = workers_.find(worker);
    if (found != workers_.end() && found->second.has_reported) {
        notify(worker, notification);
    } else {
        signal(worker, SIGTERM);
    }
}

void RemoteWorkers::stop_unneeded(int agent) {
    const bool is_needed = std::any_of(workers_.begin(), workers_.end(), [agent](const auto& entry) {
        return entry.second.agent == agent && !entry.second.ended;
    });
    if (!is_needed) {
        agents_.signal_one(agent, SIGTERM);
    }
}

void RemoteWorkers::add_to(base::PollSet& set) {
    acceptor_.add_to(set);
    newcomers_->add_to(set);
    for (auto& [number, worker] : workers_) {
        if (worker.link.is_open()) {
            set.add(worker.link.fd(), POLLIN, [this, number = number] { take_reports(number); });
        }
        if (worker.link.is_open() && worker.link.has_queue()) {
            set.add(worker.link.fd(), POLLOUT, [&link = worker.link] { link.flush(); });
        }
        if (!worker.has_reported && !worker.ended && worker.agent >= 0) {
            set.wake_at(worker.report_by);
        }
        set.wake_at(worker.lost_until);
    }
    agents_.add_to(set);
    if (agents_.is_released()) {
        set.wake_at(link_deadline_);
    }
    if (!waits_.empty() || !ends_.empty()) {
        set.wake_at(std::chrono::steady_clock::now());  // the caller must take `waits_` and `ends_` at once
    }
}

/// The supervisor of a worker has proved that it knows the secret of the job. Stores the connection to this supervisor,
/// and lets the supervisor start the program. If the job does not need the worker any more, the connection is closed,
/// and the supervisor exits.
void RemoteWorkers::take_hello(FrameLink link, const Frame& hello) {
    const auto found = workers_.find(hello.value);
    if (found == workers_.end() || found->second.has_reported || found->second.ended) {
        return;
    }
    Worker& worker = found->second;
    worker.has_reported = true;
    worker.greeting = parse_greeting(hello.payload);
    worker.link = std::move(link);
    if (const Status opened = output_->open_remote_rank(hello.value); !opened.is_ok()) {
        end(hello.value, not_started(hello.value, opened.message()));
        return;
    }
    // Close the connection soon if the host does not answer. In an elastic job this is always allowed, because the job
    // continues without the host.
    static_cast<void>(worker.link.close_when_silent());
    worker.link.send(FrameKind::welcome, kAlone, encode_variables(worker.variables));
}

void RemoteWorkers::take_reports(int number) {
    Worker& worker = workers_.at(number);
    for (const Frame& frame : worker.link.receive()) {
        take_report(number, worker, frame);
    }
    if (!worker.link.is_open() && !worker.ended) {
        lose(number);
    }
}

void RemoteWorkers::lose(int number) {
    Worker& worker = workers_.at(number);
    worker.ended = true;
    has_lost_host_ = true;
    worker.lost_until = std::chrono::steady_clock::now() + kLostTime;
    stop_unneeded(worker.agent);  // without this call, ssh would wait for hours for a host that does not answer
}

bool RemoteWorkers::has_living_neighbour(const std::string& host_key) const {
    return std::any_of(workers_.begin(), workers_.end(), [&host_key](const auto& entry) {
        return !entry.second.ended && entry.second.greeting.host_key == host_key;
    });
}

std::vector<RankEnd> RemoteWorkers::take_ends(TimePoint now) {
    for (auto& [number, worker] : workers_) {
        if (worker.lost_until && (now >= *worker.lost_until || !has_living_neighbour(worker.greeting.host_key))) {
            worker.lost_until.reset();
            RankEnd lost = end_of(number, SIGKILL);  // SIGKILL is assumed, because the real wait status is unknown
            lost.lost = true;
            report(worker, std::move(lost));
        }
    }
    return std::exchange(ends_, {});
}

void RemoteWorkers::take_report(int number, Worker& worker, const Frame& frame) {
    if (frame.kind == FrameKind::output) {
        worker.output.take(*output_, number, frame);
    } else if (frame.kind == FrameKind::started) {
        worker.pid = frame.value;
    } else if (frame.kind == FrameKind::waits) {
        worker.greeting = parse_greeting(frame.payload);
        waits_.push_back(number);
    } else if (frame.kind == FrameKind::start_failed) {
        end(number, not_started(number, plan_.program.front(), frame.value));
    } else if (frame.kind == FrameKind::ended) {
        RankEnd reported = end_of(number, frame.value);
        read_report(frame.payload, reported);
        end(number, std::move(reported));
    }
}

RankEnd RemoteWorkers::end_of(int number, int wait_status) const {
    RankEnd end;
    end.rank = number;
    end.pid = workers_.at(number).pid;
    end.wait_status = wait_status;
    return end;
}

/// Stores how a worker ended, and lets its supervisor exit.
void RemoteWorkers::end(int number, RankEnd end) {
    Worker& worker = workers_.at(number);
    if (std::exchange(worker.ended, true)) {
        return;
    }
    if (worker.link.is_open()) {
        worker.link.send(FrameKind::leave, 0);
    }
    report(worker, std::move(end));
}

/// Adds the name of the worker's host to `end`, and stores `end` for take_ends().
void RemoteWorkers::report(const Worker& worker, RankEnd end) {
    end.host = worker.greeting.host.empty() ? worker.host : worker.greeting.host;
    ends_.push_back(std::move(end));
}

void RemoteWorkers::child_ended(pid_t pid, int wait_status) {
    const std::optional<RankStarter::End> agent = agents_.ended(pid, wait_status);
    if (!agent || agents_.is_released()) {
        return;
    }
    for (int number = agent->first_rank; number < agent->first_rank + agent->ranks; ++number) {
        const auto found = workers_.find(number);
        if (found != workers_.end() && !found->second.has_reported) {
            end(number,
                not_started(number,
                            fmt::format("{} before the worker's supervisor had reported; check that ssh reaches "
                                        "the host without a question, that {} is there, and that the host can "
                                        "connect to this one",
                                        agent->text, plan_.supervisor_program)));
        }
    }
}

void RemoteWorkers::advance(TimePoint now) {
    agents_.advance(now);
    newcomers_->expire(now);
    for (auto& [number, worker] : workers_) {
        worker.output.advance(*output_, worker.link);
        if (!worker.has_reported && !worker.ended && worker.agent >= 0 && now >= worker.report_by) {
            end(number,
                not_started(number,
                            fmt::format("its supervisor has not reported within {} s; check that {} is there on "
                                        "that host, and that the host can connect to this one (a firewall? "
                                        "--network-interfaces)",
                                        plan_.start_time.count() / 1000, plan_.supervisor_program)));
        }
    }
    std::erase_if(workers_, [this](const auto& entry) {
        const auto& [number, worker] = entry;
        const bool is_over = worker.ended && !worker.link.is_open() && !worker.lost_until;
        if (is_over && worker.has_reported) {
            output_->close_remote_rank(number);  // no more output comes
        }
        return is_over;
    });
    links_expired_ = links_expired_ || (agents_.is_released() && now >= link_deadline_);
}

void RemoteWorkers::release(TimePoint now) {
    agents_.release(now, has_lost_host_ ? RankStarter::kLeavesAfterLoss : RankStarter::kLeaves);
    link_deadline_ = now + kLinkTimeAfterJob;
    for (auto& [number, worker] : workers_) {
        worker.ended = true;
        if (worker.link.is_open()) {
            worker.link.send(FrameKind::leave, 0);
        }
    }
}

bool RemoteWorkers::is_gone() const {
    const bool has_links =
        std::any_of(workers_.begin(), workers_.end(), [](const auto& entry) { return entry.second.link.is_open(); });
    return agents_.is_released() && agents_.is_gone() && (!has_links || links_expired_);
}

}  // namespace rueda::launcher
