// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/elastic/elastic_ranks.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <csignal>
#include <string_view>
#include <variant>

#include "base/launcher_notification.hpp"
#include "base/network/endpoint_list.hpp"
#include "base/text.hpp"
#include "launcher/connection/own_rendezvous.hpp"
#include "launcher/hosts/network.hpp"
#include "launcher/options/variables.hpp"
#include "launcher/plan/host_settings.hpp"
#include "launcher/plan/surroundings.hpp"
#include "launcher/watch/job_ending.hpp"

namespace rueda::launcher {

namespace {

using ElasticKind = base::LauncherNotification::Kind;
using ElasticClock = std::chrono::steady_clock;

/// A worker that the job no longer needs gets SIGTERM. If it still runs after this time, it gets SIGKILL.
constexpr std::chrono::seconds kDismissTime{2};

/// Returns the variables that set the number of threads of a worker on this host. `slots` is the number of slots that
/// the host has when the worker starts. Variables that the user has set in `environment` are left out.
std::vector<EnvironmentChange> threads_of_worker(const Environment& environment, const ElasticPlan& plan, int slots) {
    return thread_settings({plan.cores, plan.cores}, std::min(slots, plan.most),
                           [&environment](std::string_view name) { return !text_of(environment, name).empty(); });
}

Membership::Ending ending_of(const RankEnd& end) {
    if (!end.abort_reason.empty()) {
        return Membership::Ending::echo;
    }
    return ended_well(end) ? Membership::Ending::well : Membership::Ending::failed;
}

/// Whether every host means itself by this name or address.
bool is_loopback_name(std::string_view name) {
    return name == "localhost" || name == "::1" || name.starts_with("127.");
}

}  // namespace

ElasticRanks::ElasticRanks(const LaunchPlan& plan, StartContext context)
    : plan_(plan),
      context_(std::move(context)),
      own_host_key_(host_key(changed_environment(context_.environment, plan.environment))),
      membership_(*plan.elastic, ElasticClock::now()),
      discovery_(*plan.elastic, context_.environment, context_.signal_mask) {}

Status ElasticRanks::start(JobOutput& output) {
    output_ = &output;
    null_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!null_.is_open()) {
        return system_failure(ErrorCode::internal, "open(/dev/null)");
    }
    if (plan_.elastic->may_use_other_hosts) {
        RUEDA_RETURN_IF_FAILED(prepare_for_other_hosts());
    }
    if (plan_.elastic->discovery_script.empty()) {
        discovery_.stop();
        set_slots(plan_.elastic->hosts);
    }
    advance(ElasticClock::now());
    return {};
}

Status ElasticRanks::prepare_for_other_hosts() {
    Result<std::string> secret = random_token();
    RUEDA_RETURN_IF_FAILED(secret.status());
    rendezvous_secret_ = std::move(secret).value();
    Result<std::string> token = random_token();
    RUEDA_RETURN_IF_FAILED(token.status());
    job_token_ = std::move(token).value();
    raise_descriptor_limit(plan_.elastic->most);
    remote_.emplace(plan_, context_);
    Status listening = remote_->listen(*output_, rendezvous_secret_);
    if (!listening.is_ok()) {
        remote_.reset();
    }
    return listening;
}

void ElasticRanks::set_slots(const std::vector<Host>& hosts) {
    slots_.clear();
    for (const Host& host : hosts) {
        slots_[host.name] = host.slots;
    }
    membership_.set_slots(hosts, ElasticClock::now());
}

bool ElasticRanks::is_here(const std::string& host) const { return plan_.elastic->own_names.contains(host); }

void ElasticRanks::add_to(base::PollSet& set) {
    for (auto& [number, worker] : workers_) {
        if (worker.process && worker.process->line_fd() >= 0) {
            set.add(worker.process->line_fd(), POLLIN, [this, number = number] { take_message(number); });
        }
        set.wake_at(worker.kill_at);
    }
    if (remote_) {
        remote_->add_to(set);
    }
    discovery_.add_to(set);
    if (!ends_.empty()) {
        set.wake_at(ElasticClock::now());  // wakes the caller at once, because take_ends() has ends to return
    }
    set.wake_at(is_ending() ? std::nullopt : membership_.deadline());
}

/// Only adds the worker to `waiting_` if the worker waits. take_ends() reports this to Membership, after it has
/// reported the ends of other workers.
void ElasticRanks::take_message(int worker) {
    if (workers_.at(worker).process->take_wait()) {
        waiting_.push_back(worker);
    }
}

void ElasticRanks::notify(int number, const Worker& worker, std::string_view notification) {
    if (worker.process) {
        worker.process->notify(notification);
    } else {
        remote_->notify(number, notification);
    }
}

void ElasticRanks::signal(int number, Worker& worker, int signal_number) {
    if (worker.process) {
        worker.process->signal(signal_number);
    } else {
        remote_->signal(number, signal_number);
    }
}

void ElasticRanks::advance(TimePoint now) {
    if (remote_) {
        remote_->advance(now);
    }
    for (auto& [number, worker] : workers_) {
        if (worker.kill_at && now >= *worker.kill_at) {
            worker.kill_at.reset();
            signal(number, worker, SIGKILL);
        }
    }
    if (is_ending()) {
        discovery_.stop();
        return;
    }
    for (const std::string& note : discovery_.advance(now)) {
        say_once(note);
    }
    settle_ends();
    membership_.advance(now);
    carry_out(now);
}

/// Carries out the actions of Membership. Call this after each event, and before the ends of further workers are
/// collected. Otherwise an action could refer to a worker that has ended. If an action fails at once (for example,
/// because a program cannot be started), Membership decides on further actions. These are carried out here, too.
void ElasticRanks::carry_out(TimePoint now) {
    for (auto actions = membership_.take_actions(); !actions.empty(); actions = membership_.take_actions()) {
        for (const Membership::Action& action : actions) {
            std::visit([this, now](const auto& one) { carry_out(one, now); }, action);
        }
        if (remote_) {
            remote_->start_added(now);
        }
        settle_ends();
    }
}

void ElasticRanks::carry_out(const Membership::Start& start, TimePoint /*now*/) {
    if (membership_.generation() >= 0) {
        output_->say(fmt::format("worker {} is started{}; it joins the other ranks at their next commit", start.worker,
                                 is_here(start.host) ? "" : " on " + start.host));
    }
    if (!is_here(start.host)) {
        workers_.emplace(start.worker, Worker{});
        has_started_ = true;
        remote_->add(start.worker, start.host, std::min(slots_[start.host], plan_.elastic->most),
                     variables_of_newcomer());
    } else if (const Status started = start_worker(start.worker, start.host); !started.is_ok()) {
        fresh_.push_back({start.worker, -1, not_started(start.worker, started.message())});
    }
}

/// Returns the variables of a worker that does not yet belong to a generation. Its rank is not known before init().
/// Nevertheless the variables exist from the beginning, with the values of a job of one rank. So init() only has to
/// replace values, and does not move the list of variables, which other threads may read at the same time.
std::vector<EnvironmentChange> ElasticRanks::variables_of_newcomer() const {
    LaunchPlan alone = plan_;
    alone.ranks = 1;
    std::vector<EnvironmentChange> variables = rank_environment(alone, 0);
    variables.push_back({kGenerationVariable, "0"});
    variables.push_back({kFirstGenerationVariable, "0"});
    return variables;
}

/// Starts a worker on this host.
Status ElasticRanks::start_worker(int number, const std::string& host) {
    const Result<RankDescriptors> descriptors = output_->open_rank(number);
    RUEDA_RETURN_IF_FAILED(descriptors.status());
    ChildSpec spec;
    spec.file = context_.program_file;
    spec.words = plan_.program;
    spec.environment = changed_environment(context_.environment, plan_.environment);
    spec.environment.erase(kJobVariable);
    spec.environment = changed_environment(std::move(spec.environment), variables_of_newcomer());
    // If all workers run on this host, the ranks of the first workers are known before init().
    const bool is_first = membership_.generation() < 0 && number < plan_.ranks && !remote_;
    if (is_first) {
        spec.environment = changed_environment(std::move(spec.environment), rank_environment(plan_, number));
    }
    if (remote_) {
        spec.environment[kRendezvousSecretVariable] = rendezvous_secret_;
    }
    if (plan_.elastic->cores > 0) {
        const std::vector<EnvironmentChange> threads =
            threads_of_worker(spec.environment, *plan_.elastic, slots_[host]);
        spec.environment = changed_environment(std::move(spec.environment), threads);
    }
    spec.stdin_fd = number == 0 && plan_.first_rank_reads_stdin ? kInherit : null_.value();
    spec.stdout_fd = descriptors.value().standard_output.value();
    spec.stderr_fd = descriptors.value().standard_error.value();
    spec.own_group = plan_.own_groups;
    spec.signal_mask = context_.signal_mask;
    Worker worker;
    worker.process.emplace(context_.read);
    RUEDA_RETURN_IF_FAILED(worker.process->open_line(is_first ? number : 0, is_first ? plan_.ranks : 1));
    worker.process->notify(base::encode({ElasticKind::elastic, 0, ""}));
    int error_number = 0;
    const Status started = worker.process->start(std::move(spec), error_number);
    if (error_number != 0) {
        fresh_.push_back({number, -1, not_started(number, plan_.program.front(), error_number)});
        return {};
    }
    RUEDA_RETURN_IF_FAILED(started);
    workers_.emplace(number, std::move(worker));
    has_started_ = true;
    return {};
}

/// Returns where the ranks of a generation meet (socket or addresses, and MASTER_PORT). Each generation uses a new
/// socket name or new ports. So a process of an earlier generation cannot connect to this generation.
ElasticRanks::RendezvousPlace ElasticRanks::rendezvous_place(const std::vector<Membership::Member>& members,
                                                             bool has_several_hosts) {
    const int first = members.front().worker;
    const bool is_first_here = workers_.at(first).process.has_value();
    const std::uint16_t master_port = is_first_here ? hold(master_port_) : remote_->greeting_of(first).master_port;
    if (!has_several_hosts) {
        const Result<std::string> token = random_token();
        return {"@rueda-" + (token.is_ok() ? token.value() : fmt::format("{}", membership_.generation())),
                {kMasterOfOneHost, master_port}};
    }
    if (!is_first_here) {
        return {remote_->greeting_of(first).rendezvous, {remote_->connection_of(first).peer, master_port}};
    }
    const auto other = std::find_if(members.begin(), members.end(), [this](const Membership::Member& member) {
        return !workers_.at(member.worker).process;
    });
    return {rendezvous_of_this_host(hold(rendezvous_port_)), {remote_->connection_of(other->worker).own, master_port}};
}

/// Reserves a new port of this host. Returns 0 if no port can be reserved.
std::uint16_t ElasticRanks::hold(std::optional<HeldPort>& port) {
    Result<HeldPort> held = hold_port();
    port = held.is_ok() ? std::optional(std::move(held).value()) : std::nullopt;
    return port ? port->port : std::uint16_t{0};
}

/// Returns the text by which the worker's host is recognised (host_key()). It is the same for all workers of a host.
std::string ElasticRanks::key_of_host(int number) const {
    return workers_.at(number).process ? own_host_key_ : remote_->greeting_of(number).host_key;
}

void ElasticRanks::carry_out(const Membership::Form& form, TimePoint /*now*/) {
    notifications_ = RankNotifications();
    held_.clear();
    std::vector<std::string> hosts;
    for (const Membership::Member& member : form.members) {
        hosts.push_back(key_of_host(member.worker));
    }
    const std::vector<TorchPlace> places = torch_places(hosts);
    const RendezvousPlace where = rendezvous_place(form.members, places.front().hosts > 1);
    for (const Membership::Member& member : form.members) {
        Worker& worker = workers_.at(member.worker);
        worker.rank = member.rank;
        worker.generation = form.generation;
        worker.first_generation = worker.first_generation < 0 ? form.generation : worker.first_generation;
    }
    if (places.front().hosts > 1 && !base::tcp_endpoints(where.rendezvous)) {
        give_up_rendezvous(form.members);  // does not call note_hosts(): `rueda top` still finds the hosts of the
                                           // previous generation until the next one is formed, which happens soon
        return;
    }
    for (const Membership::Member& member : form.members) {
        Worker& worker = workers_.at(member.worker);
        const TorchPlace& place = places[static_cast<std::size_t>(member.rank)];
        std::vector<EnvironmentChange> changes = rendezvous_environment(place, where.rendezvous);
        const std::vector<EnvironmentChange> torch = torch_environment(plan_, place, where.master);
        changes.insert(changes.end(), torch.begin(), torch.end());
        std::vector<base::PlaceVariable> variables;
        for (const EnvironmentChange& change : changes) {
            variables.push_back({change.name, change.value.value_or("")});
        }
        variables.push_back({kGenerationVariable, fmt::format("{}", form.generation)});
        variables.push_back({kFirstGenerationVariable, fmt::format("{}", worker.first_generation)});
        const Result<std::string> text = base::encode_place(variables);
        // The number of addresses is limited, so the text is never too long for encode_place(). If it were too long,
        // the worker would get an empty text, and would report a damaged text.
        notify(member.worker, worker,
               base::encode({ElasticKind::place, member.rank, text.is_ok() ? text.value() : ""}));
    }
    note_hosts(form.members);
    if (form.generation > 0) {
        output_->say(fmt::format("the job goes on with {} {} (generation {})", form.members.size(),
                                 form.members.size() == 1 ? "rank" : "ranks", form.generation));
    }
}

/// Stores a list of the hosts of a generation as a note (JobNote) for `rueda top`. This process and the supervisors on
/// the other hosts keep the note.
void ElasticRanks::note_hosts(const std::vector<Membership::Member>& members) {
    if (!remote_) {
        return;
    }
    std::vector<std::string> hosts;
    std::set<std::string> keys;  // host_key() of the listed hosts, so that a host with two names is listed only once
    for (const Membership::Member& member : members) {
        if (keys.insert(key_of_host(member.worker)).second) {
            // A name such as "localhost" is replaced by this host's name: on another host it would mean that host.
            hosts.push_back(is_loopback_name(member.host) ? host_name() : member.host);
        }
    }
    const std::string text = hosts.size() > 1 ? describe_job(job_token_, hosts) : "";
    job_note_.write(text);
    for (const Membership::Member& member : members) {
        if (!workers_.at(member.worker).process) {
            remote_->note_job(member.worker, text.size() > JobNote::kLongest ? "" : text);
        }
    }
}

/// Called if the host of rank 0 has no free port or no address at which the ranks could meet. Kills the worker that
/// should be rank 0. The other workers continue to wait for the next generation.
void ElasticRanks::give_up_rendezvous(const std::vector<Membership::Member>& members) {
    const int first = members.front().worker;
    output_->say(
        fmt::format("worker {} is killed: it should be rank 0, and its host {} has no network address or no "
                    "free port at which the ranks can meet",
                    first, base::quote(members.front().host)));
    for (const Membership::Member& member : members) {
        if (member.worker != first) {
            waiting_.push_back(member.worker);
        }
    }
    signal(first, workers_.at(first), SIGKILL);
}

void ElasticRanks::carry_out(const Membership::Tell& tell, TimePoint /*now*/) {
    notify(tell.worker, workers_.at(tell.worker), base::encode({ElasticKind::slots_changed, tell.changes, ""}));
}

void ElasticRanks::carry_out(const Membership::Dismiss& dismiss, TimePoint now) {
    const auto found = workers_.find(dismiss.worker);
    if (found == workers_.end()) {
        return;  // the worker has ended since the decision to dismiss it
    }
    Worker& worker = found->second;
    output_->say(fmt::format("worker {} is ended: {}", dismiss.worker, dismiss.reason));
    worker.is_dismissed = true;
    worker.kill_at = now + kDismissTime;
    signal(dismiss.worker, worker, SIGTERM);
    signal(dismiss.worker, worker, SIGCONT);
}

void ElasticRanks::carry_out(const Membership::Kill& kill, TimePoint /*now*/) {
    const auto found = workers_.find(kill.worker);
    if (found != workers_.end()) {  // the worker may have ended since the decision to kill it
        output_->say(fmt::format("worker {} is killed: {}", kill.worker, kill.reason));
        signal(kill.worker, found->second, SIGKILL);
    }
}

/// Moves the ends that decide how the job has ended to `ends_`. After a success, these are only the ends of members of
/// the last generation.
void ElasticRanks::carry_out(const Membership::End& end, TimePoint /*now*/) {
    discovery_.stop();
    if (!end.success) {
        output_->say(fmt::format("the elastic job ends: {}", end.reason));
        const std::string dismissal = base::encode({ElasticKind::dismissed, 0, end.reason});
        for (const auto& [number, worker] : workers_) {
            if (worker.process) {
                worker.process->notify(dismissal);
            } else {
                remote_->dismiss(number, dismissal);
            }
        }
    }
    for (NumberedEnd& held : held_) {
        if (!end.success || held.generation == membership_.generation()) {
            ends_.push_back(std::move(held.end));
        }
    }
    held_.clear();
    const bool has_cause = std::any_of(ends_.begin(), ends_.end(), [](const RankEnd& one) { return !ended_well(one); });
    if (!end.success && !has_cause) {
        ends_.push_back(not_started(0, end.reason));
    }
}

std::map<int, ElasticRanks::Worker>::iterator ElasticRanks::find_worker(pid_t pid) {
    return std::find_if(workers_.begin(), workers_.end(), [pid](const auto& entry) {
        return entry.second.process && entry.second.process->pid() == pid;
    });
}

void ElasticRanks::child_ends(pid_t pid, bool is_well) {
    if (const auto found = find_worker(pid); found != workers_.end()) {
        // After a worker has failed, other processes of its group may still take part in the old generation, so they
        // get SIGKILL. After any other end of a worker, they get SIGTERM.
        found->second.process->end_group(is_well || found->second.is_dismissed || is_ending());
    }
}

void ElasticRanks::child_ended(pid_t pid, int wait_status) {
    if (const std::optional<Discovered> discovered = discovery_.ended(pid, wait_status, ElasticClock::now())) {
        for (const std::string& note : discovered->notes) {
            say_once(note);
        }
        if (discovered->hosts && !is_ending()) {
            settle_ends();  // the next actions must not refer to a worker that has ended
            set_slots(*discovered->hosts);
            carry_out(ElasticClock::now());
        }
        return;
    }
    if (remote_) {
        remote_->child_ended(pid, wait_status);
    }
    const auto found = find_worker(pid);
    if (found != workers_.end()) {
        output_->drain_rank(found->first);
        note_end(found, found->second.process->end(found->first, wait_status));
    }
}

void ElasticRanks::note_end(std::map<int, Worker>::iterator ended, RankEnd end) {
    auto& [number, worker] = *ended;
    end.rank = worker.rank >= 0 ? worker.rank : number;
    if (!worker.is_dismissed) {
        fresh_.push_back({number, worker.generation, std::move(end)});
    }
    workers_.erase(ended);
}

/// Reports the ends of workers to Membership. These ends were noticed together, so their order is unknown. The members
/// are first told of the end that is most likely the cause of the others.
void ElasticRanks::settle_ends() {
    for (RankEnd& end : remote_ ? remote_->take_ends(ElasticClock::now()) : std::vector<RankEnd>()) {
        if (const auto found = workers_.find(end.rank); found != workers_.end()) {
            note_end(found, std::move(end));
        }
    }
    std::vector<NumberedEnd> fresh = std::exchange(fresh_, {});
    if (is_ending()) {
        for (NumberedEnd& one : fresh) {
            ends_.push_back(std::move(one.end));
        }
        return;
    }
    std::vector<RankEnd> of_generation;
    for (const NumberedEnd& one : fresh) {
        if (one.generation >= 0 && one.generation == membership_.generation()) {
            of_generation.push_back(one.end);
        }
    }
    notify_members(of_generation);
    std::vector<Membership::Ended> together;
    for (NumberedEnd& one : fresh) {
        const Membership::Ending how = ending_of(one.end);
        if (how == Membership::Ending::failed) {
            output_->say(describe(one.end));
        }
        together.push_back({one.worker, how});
        held_.push_back(std::move(one));
    }
    if (!together.empty()) {
        membership_.ended(together, ElasticClock::now());
    }
}

void ElasticRanks::notify_members(const std::vector<RankEnd>& ends) {
    for (const RankNotifications::Item& item : notifications_.note(ends)) {
        for (const auto& [number, worker] : workers_) {
            if (worker.generation == membership_.generation() && !worker.is_dismissed) {
                notify(number, worker, item.notification);
            }
        }
    }
}

std::vector<RankEnd> ElasticRanks::take_ends() {
    settle_ends();
    const std::vector<int> remote = remote_ ? remote_->take_waits() : std::vector<int>();
    waiting_.insert(waiting_.end(), remote.begin(), remote.end());
    for (const int worker : std::exchange(waiting_, {})) {
        if (!is_ending() && workers_.contains(worker)) {
            membership_.waits(worker, ElasticClock::now());
        }
    }
    if (!stopping_) {
        carry_out(ElasticClock::now());
    }
    return std::exchange(ends_, {});
}

void ElasticRanks::signal_ranks(int signal_number) {
    if (ends_programs(signal_number) && !std::exchange(stopping_, true)) {
        discovery_.stop();
        for (const NumberedEnd& held : held_) {
            ends_.push_back(held.end);
        }
        held_.clear();
    }
    for (auto& [number, worker] : workers_) {
        if (stopping_) {
            notify(number, worker, base::encode({ElasticKind::dismissed, 0, "ruedarun ends the job"}));
        }
        signal(number, worker, signal_number);
    }
}

void ElasticRanks::release(TimePoint now) {
    workers_.clear();
    if (remote_) {
        remote_->release(now);
    }
}

std::vector<std::int32_t> ElasticRanks::running() const {
    std::vector<std::int32_t> ranks;
    for (const auto& [number, worker] : workers_) {
        ranks.push_back(worker.rank >= 0 ? worker.rank : number);
    }
    return ranks;
}

void ElasticRanks::say_once(const std::string& line) {
    if (said_.insert(line).second) {
        output_->say(line);
    }
}

}  // namespace rueda::launcher
