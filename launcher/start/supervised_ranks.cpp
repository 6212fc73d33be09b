// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/start/supervised_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/network/endpoint_list.hpp"
#include "launcher/connection/reachability.hpp"
#include "launcher/gpus/rank_gpus.hpp"
#include "launcher/hosts/network.hpp"
#include "launcher/jobs/job_note.hpp"
#include "launcher/plan/surroundings.hpp"
#include "launcher/start/host_agents.hpp"
#include "launcher/start/mpirun.hpp"
#include "launcher/watch/job_ending.hpp"

namespace rueda::launcher {

namespace {

/// How long connections may stay open after the end of the job. Supervisors (the parents of ranks) still send output
/// during this time.
constexpr std::chrono::seconds kLinkTime{8};

/// Returns the variable that tells the ranks the hosts of the job. For a job on one host, the variable is removed. If
/// ruedarun runs in a rank of another job, the variable would describe that job.
Result<EnvironmentChange> job_change(const LaunchPlan& plan) {
    if (plan.shares.empty()) {
        return EnvironmentChange{kJobVariable, std::nullopt};
    }
    const Result<std::string> token = random_token();
    RUEDA_RETURN_IF_FAILED(token.status());
    std::vector<std::string> hosts;
    for (const HostShare& share : plan.shares) {
        hosts.push_back(share.host);
    }
    return EnvironmentChange{kJobVariable, describe_job(token.value(), hosts)};
}

std::unique_ptr<RankStarter> make_starter(const LaunchPlan& plan) {
    if (plan.way == LaunchWay::agents) {
        return std::make_unique<HostAgents>();
    }
    return std::make_unique<Mpirun>();
}

}  // namespace

SupervisedRanks::SupervisedRanks(const LaunchPlan& plan, StartContext context)
    : plan_(plan),
      context_(std::move(context)),
      starter_(make_starter(plan)),
      ranks_(static_cast<std::size_t>(plan.ranks)) {}

Status SupervisedRanks::start(JobOutput& output) {
    output_ = &output;
    raise_descriptor_limit(plan_.ranks);
    Result<ControlListener> listener = is_on_this_host() ? listen_on_this_host() : listen_on_network(plan_.interfaces);
    RUEDA_RETURN_IF_FAILED(listener.status());
    const ControlAddress& address = listener.value().address;
    newcomers_.emplace(address.secret,
                       [this](FrameLink link, const Frame& hello) { take_hello(std::move(link), hello); });
    acceptor_ = Acceptor(
        std::move(listener.value().sockets), [this](base::UniqueFd socket) { newcomers_->accept(std::move(socket)); },
        [this](std::string_view line) { output_->say(line); });
    starter_->on_error_text = [this](std::string_view text) {
        // After all ranks have ended, the text of mpirun or ssh is dropped. ruedarun has already printed how the ranks
        // ended. mpirun's messages say the same, and they are so long that the user would not notice ruedarun's lines
        // between them.
        if (!running().empty()) {
            output_->pass_on_error(text);
        }
    };
    start_deadline_ = std::chrono::steady_clock::now() + plan_.start_time;
    Status started = start_starter(address);
    start_failed_ = !started.is_ok();
    return started;
}

Status SupervisedRanks::start_starter(const ControlAddress& address) {
    Result<EnvironmentChange> job = job_change(plan_);
    RUEDA_RETURN_IF_FAILED(job.status());
    std::vector<EnvironmentChange> variables = {{kControlVariable, format_control_address(address)},
                                                std::move(job).value()};
    if (plan_.way == LaunchWay::agents) {
        // The ranks get this secret through ssh, and not over the connections of the supervisors, which are not
        // encrypted.
        Result<std::string> secret = random_token();
        RUEDA_RETURN_IF_FAILED(secret.status());
        variables.push_back({kRendezvousSecretVariable, std::move(secret).value()});
    }
    return starter_->start(plan_, context_, variables);
}

void SupervisedRanks::add_to(base::PollSet& set) {
    acceptor_.add_to(set);
    if (newcomers_) {
        newcomers_->add_to(set);
    }
    for (int rank = 0; rank < plan_.ranks; ++rank) {
        FrameLink& link = rank_at(rank).link;
        if (link.is_open()) {
            set.add(link.fd(), POLLIN, [this, rank] { take_reports(rank); });
        }
        if (link.is_open() && link.has_queue()) {
            set.add(link.fd(), POLLOUT, [&link] { link.flush(); });
        }
    }
    starter_->add_to(set);
    if (master_choice_ && !welcomed_ && !start_failed_ && !starter_->is_released()) {
        set.wake_at(master_choice_->deadline());
    }
    if (starter_->is_released()) {
        set.wake_at(link_deadline_);
    } else if (std::any_of(ranks_.begin(), ranks_.end(),
                           [](const Rank& rank) { return !rank.has_reported && !rank.ended; })) {
        set.wake_at(start_deadline_);
    }
}

/// Stores the link to a supervisor (the parent of a rank), which has proved that it knows the secret of the job. If the
/// supervisor's rank does not exist, or a supervisor of this rank has reported already, the link is closed.
void SupervisedRanks::take_hello(FrameLink link, const Frame& hello) {
    const Greeting greeting = parse_greeting(hello.payload);
    const bool is_ours = hello.value >= 0 && hello.value < plan_.ranks;
    Rank* const rank = is_ours ? &rank_at(hello.value) : nullptr;
    if (rank == nullptr || rank->has_reported || rank->ended) {
        return;
    }
    rank->has_reported = true;
    rank->host = is_on_this_host() ? "" : greeting.host;
    rank->host_key = greeting.host_key;
    rank->gpus = greeting.gpus;
    rank->link = std::move(link);
    if (hello.value == 0) {
        master_port_ = greeting.master_port;
        master_endpoints_ = parse_endpoints(greeting.endpoints);
        rendezvous_ = greeting.rendezvous;
    }
    if (const Status opened = open_output(hello.value); !opened.is_ok()) {
        end_rank(not_started(hello.value, opened.message()));
    }
    welcome_when_ready();
}

Status SupervisedRanks::open_output(int rank) {
    if (!is_on_this_host()) {
        return output_->open_remote_rank(rank);
    }
    const Result<RankDescriptors> descriptors = output_->open_rank(rank);
    RUEDA_RETURN_IF_FAILED(descriptors.status());
    return rank_at(rank).link.send_descriptors(
        std::array<int, 2>{descriptors.value().standard_output.value(), descriptors.value().standard_error.value()});
}

/// Tells the supervisors (the parents of ranks) to start their programs, after all supervisors have reported. Each
/// program needs the address of rank 0 and the hosts of all ranks. ruedarun knows these only after all supervisors have
/// reported, and after the other hosts have tried the addresses of rank 0's host.
void SupervisedRanks::welcome_when_ready() {
    const bool all = std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.has_reported; });
    if (welcomed_ || start_failed_ || !all) {
        return;
    }
    if (!master_choice_ && has_to_test_addresses()) {
        test_addresses();
    } else if (!master_choice_ || master_choice_->is_complete(std::chrono::steady_clock::now())) {
        welcome();
    }
}

/// Whether ruedarun must find out which address of rank 0's host the other hosts can reach. If the host has only one
/// address, or the programs do not get MASTER_ADDR from ruedarun, there is nothing to choose.
bool SupervisedRanks::has_to_test_addresses() const {
    return master_endpoints_.size() > 1 && plan_.sets_torch_variables && master_port_ != 0 &&
           !plan_.user_variables.contains("MASTER_ADDR");
}

/// Lets one supervisor of each other host try the addresses of rank 0's host.
void SupervisedRanks::test_addresses() {
    std::set<std::string> hosts = {ranks_.front().host_key};
    std::set<int> asked;
    for (int rank = 0; rank < plan_.ranks; ++rank) {
        if (hosts.insert(rank_at(rank).host_key).second) {
            asked.insert(rank);
        }
    }
    master_choice_.emplace(master_endpoints_, asked, std::chrono::steady_clock::now());
    for (const int rank : asked) {
        rank_at(rank).link.send(FrameKind::probe_addresses, 0, encode_endpoints(master_endpoints_));
    }
    welcome_when_ready();
}

void SupervisedRanks::welcome() {
    if (plan_.way == LaunchWay::agents && !base::tcp_endpoints(rendezvous_)) {
        end_rank(not_started(0, "its host has no network address or no free port at which the ranks can meet"));
        return;
    }
    welcomed_ = true;
    std::vector<std::string> hosts;
    for (const Rank& rank : ranks_) {
        hosts.push_back(rank.host_key);
    }
    const MasterAddress master{master_address(), master_port_};
    const std::vector<TorchPlace> places = torch_places(hosts);
    std::vector<std::vector<EnvironmentChange>> variables;
    for (const TorchPlace& place : places) {
        variables.push_back(torch_environment(plan_, place, master));
        if (plan_.way == LaunchWay::agents) {
            const std::vector<EnvironmentChange> changes = rendezvous_environment(place, rendezvous_);
            variables.back().insert(variables.back().end(), changes.begin(), changes.end());
        }
        if (const Status divided = add_gpus(place, variables.back()); !divided.is_ok()) {
            welcomed_ = false;  // end_rank() must know that no program has started
            end_rank(not_started(place.rank, divided.message()));
            return;
        }
    }
    for (std::size_t i = 0; i < places.size(); ++i) {
        rank_at(places[i].rank).link.send(FrameKind::welcome, plan_.ranks, encode_variables(variables[i]));
        for (const RankNotifications::Item& item : context_.notifications->so_far()) {
            notify_rank(places[i].rank, item);
        }
    }
}

/// Adds the variable with the GPUs of a rank, if ruedarun divides the GPUs of each host.
Status SupervisedRanks::add_gpus(const TorchPlace& place, std::vector<EnvironmentChange>& variables) {
    if (plan_.gpus.per_rank == 0) {
        return {};
    }
    const Rank& rank = rank_at(place.rank);
    Result<std::string> devices = devices_of_rank(plan_.gpus, place.local_rank, place.local_ranks,
                                                  rank.host.empty() ? host_name() : rank.host, decode_gpus(rank.gpus));
    RUEDA_RETURN_IF_FAILED(devices.status());
    variables.push_back({base::kVisibleDevices, std::move(devices).value()});
    return {};
}

/// Returns an address of rank 0's host that the other hosts can reach.
std::string SupervisedRanks::master_address() const {
    if (is_on_this_host()) {
        return kMasterOfOneHost;
    }
    return master_choice_ ? master_choice_->address(usual_master_address()) : usual_master_address();
}

/// Returns the address from which rank 0's parent (its supervisor) has connected. If rank 0 runs on ruedarun's own
/// host, returns the address of ruedarun's host to which a supervisor of another host has connected. If there are
/// several networks, a host that has connected over another network may be unable to reach this address.
std::string SupervisedRanks::usual_master_address() const {
    const ConnectionEnds first = ends_of_connection(ranks_.front().link.fd());
    if (first.own != first.peer) {
        return first.peer;
    }
    for (const Rank& rank : ranks_) {
        if (const ConnectionEnds ends = ends_of_connection(rank.link.fd()); ends.own != ends.peer) {
            return ends.own;
        }
    }
    return first.own;
}

void SupervisedRanks::notify_ranks(const RankNotifications::Item& item) {
    for (int rank = 0; rank < plan_.ranks; ++rank) {
        notify_rank(rank, item);
    }
}

/// From now on, closes the links to hosts that do not acknowledge data in time. Call this just after all supervisors
/// (parents of ranks) were notified of a failed rank, because an unreachable host does not acknowledge this
/// notification.
void SupervisedRanks::watch_closely() {
    if (std::exchange(is_watched_closely_, true)) {
        return;
    }
    for (Rank& rank : ranks_) {
        has_lost_host_ = rank.link.close_when_silent() || has_lost_host_;
    }
}

void SupervisedRanks::notify_rank(int rank, const RankNotifications::Item& item) {
    Rank& peer = rank_at(rank);
    if (peer.link.is_open() && !peer.ended) {
        peer.link.send(FrameKind::notification, item.rank, item.notification);
    }
}

void SupervisedRanks::take_reports(int rank) {
    for (const Frame& frame : rank_at(rank).link.receive()) {
        take_report(rank, frame);
    }
    if (!rank_at(rank).link.is_open()) {
        lose(rank);
    }
}

void SupervisedRanks::take_report(int rank, const Frame& frame) {
    if (frame.kind == FrameKind::output) {
        take_output(rank, frame);
    } else if (frame.kind == FrameKind::started) {
        rank_at(rank).pid = frame.value;
    } else if (frame.kind == FrameKind::reached_addresses && master_choice_) {
        master_choice_->take(rank, frame.payload);
        welcome_when_ready();
    } else if (frame.kind == FrameKind::start_failed) {
        end_rank(not_started(rank, plan_.program.front(), frame.value));
    } else if (frame.kind == FrameKind::ended) {
        RankEnd end = end_of(rank, frame.value);
        read_report(frame.payload, end);
        end_rank(std::move(end));
    }
}

void SupervisedRanks::take_output(int rank, const Frame& frame) {
    if (!is_on_this_host()) {  // if all ranks are on ruedarun's host, they do not send their output over the link
        rank_at(rank).output.take(*output_, rank, frame);
    }
}

void SupervisedRanks::lose(int rank) {
    if (!is_on_this_host()) {
        output_->close_remote_rank(rank);
    }
    RankEnd end = end_of(rank, SIGKILL);  // the real wait status is unknown; most likely SIGKILL killed the program
    end.lost = true;
    end_rank(std::move(end));
}

RankEnd SupervisedRanks::end_of(int rank, int wait_status) const {
    RankEnd end;
    end.rank = rank;
    end.pid = rank_at(rank).pid;
    end.wait_status = wait_status;
    return end;
}

void SupervisedRanks::end_rank(RankEnd end) {
    Rank& rank = rank_at(end.rank);
    if (!std::exchange(rank.ended, true)) {
        end.host = rank.host.empty() ? host_of(plan_, end.rank) : rank.host;
        ends_.push_back(std::move(end));
        start_failed_ = start_failed_ || !welcomed_;
    }
}

void SupervisedRanks::child_ended(pid_t pid, int wait_status) {
    const std::optional<RankStarter::End> end = starter_->ended(pid, wait_status);
    if (end && !end->was_launcher) {
        note_end(*end);
    }
    if (!end || !end->was_launcher) {
        return;
    }
    if (!starter_->is_released()) {  // mpirun and the supervisors stay until release(); an mpirun that ends earlier has
                                     // failed
        ends_.push_back({kLauncherRank, pid, wait_status, "", false});
        start_failed_ = start_failed_ || !welcomed_;
    }
    for (Rank& rank : ranks_) {
        rank.ended = rank.ended || !rank.link.is_open();  // only mpirun can start supervisors, so ranks without a
                                                          // supervisor now count as ended
    }
}

/// Called when the agent of a host, or the ssh to this agent, has ended. Ranks of the host whose supervisors have not
/// reported will never start, so they count as ended. Ranks whose supervisors have reported do not need the agent any
/// more: ruedarun learns from their supervisors when they end. If the start has failed, or the job is over, ruedarun
/// itself ends the agents. This function then does nothing.
void SupervisedRanks::note_end(const RankStarter::End& end) {
    if (start_failed_ || starter_->is_released()) {
        return;
    }
    for (int rank = end.first_rank; rank < end.first_rank + end.ranks; ++rank) {
        if (!rank_at(rank).has_reported) {
            end_rank(not_started(rank, fmt::format("{} before the rank's supervisor had reported; check that ssh "
                                                   "reaches the host without a question, that {} is there, and that "
                                                   "the host can connect to this one",
                                                   end.text, plan_.supervisor_program)));
        }
    }
}

void SupervisedRanks::signal_ranks(int signal_number) {
    bool all_have_reported = true;
    for (int number = 0; number < plan_.ranks; ++number) {
        Rank& rank = rank_at(number);
        all_have_reported = all_have_reported && (rank.has_reported || rank.ended);
        if (rank.link.is_open() && !rank.ended && welcomed_) {
            rank.link.send(FrameKind::deliver, signal_number);
        } else if (!welcomed_ && rank.has_reported &&
                   ends_programs(signal_number)) {  // the program of this rank does not run yet, so the rank counts as
                                                    // ended by the signal
            RankEnd end = end_of(number, signal_number);
            end.by_launcher = true;
            end_rank(std::move(end));
        }
    }
    if (ends_programs(signal_number) && !all_have_reported) {
        starter_->signal(signal_number == SIGKILL ? SIGKILL : SIGTERM);
    }
}

std::vector<std::int32_t> SupervisedRanks::running() const {
    std::vector<std::int32_t> running;
    for (int rank = 0; rank < plan_.ranks; ++rank) {
        if (!start_failed_ && !rank_at(rank).ended) {
            running.push_back(rank);
        }
    }
    return running;
}

bool SupervisedRanks::has_started() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.pid != 0; });
}

void SupervisedRanks::release(TimePoint now) {
    starter_->release(now, has_lost_host_        ? RankStarter::kLeavesAfterLoss
                           : is_watched_closely_ ? RankStarter::kLeavesAfterFailure
                                                 : RankStarter::kLeaves);
    link_deadline_ = now + kLinkTime;
    for (Rank& rank : ranks_) {
        rank.ended = true;
        if (rank.link.is_open()) {
            rank.link.send(FrameKind::leave, 0);
        }
    }
}

void SupervisedRanks::give_up_on_absent_ranks() {
    const std::string advice =
        is_on_this_host()
            ? "check that mpirun works here (mpirun -np 1 true), or raise RUEDA_START_TIMEOUT"
            : fmt::format(
                  "check that {} is there on that host, and that the host can connect to this one (a firewall? "
                  "--network-interfaces)",
                  plan_.supervisor_program);
    for (int rank = 0; rank < plan_.ranks; ++rank) {
        if (!rank_at(rank).has_reported) {
            end_rank(not_started(rank, fmt::format("its supervisor has not reported within {} s; {}",
                                                   plan_.start_time.count() / 1000, advice)));
        }
    }
}

void SupervisedRanks::advance(TimePoint now) {
    starter_->advance(now);
    for (Rank& rank : ranks_) {
        rank.output.advance(*output_, rank.link);
    }
    if (newcomers_) {
        newcomers_->expire(now);
    }
    if (master_choice_ && !welcomed_) {
        welcome_when_ready();
    }
    if (!starter_->is_released() && now >= start_deadline_) {
        give_up_on_absent_ranks();
    }
    links_expired_ = links_expired_ || (starter_->is_released() && now >= link_deadline_);
}

bool SupervisedRanks::is_gone() const {
    const bool links_open =
        std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.link.is_open(); });
    return starter_->is_released() && starter_->is_gone() && (!links_open || links_expired_);
}

}  // namespace rueda::launcher
