// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/elastic/elastic_ranks.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <csignal>
#include <numeric>
#include <string_view>
#include <variant>

#include "base/launcher_notification.hpp"
#include "base/text.hpp"
#include "launcher/options/variables.hpp"
#include "launcher/plan/host_settings.hpp"
#include "launcher/plan/surroundings.hpp"

namespace rueda::launcher {

namespace {

using ElasticKind = base::LauncherNotification::Kind;
using ElasticClock = std::chrono::steady_clock;

/// How long a worker that the job does not need any more has between SIGTERM and SIGKILL.
constexpr std::chrono::seconds kDismissTime{2};

bool ends_workers(int signal_number) {
    return signal_number == SIGINT || signal_number == SIGTERM || signal_number == SIGQUIT || signal_number == SIGHUP ||
           signal_number == SIGKILL;
}

int slots_on(const std::vector<Host>& hosts) {
    return std::accumulate(hosts.begin(), hosts.end(), 0, [](int sum, const Host& host) { return sum + host.slots; });
}

/// Returns the variables for the threads of a worker that starts while there are this many slots. Variables that
/// `environment` contains have been set by the user.
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

}  // namespace

ElasticRanks::ElasticRanks(const LaunchPlan& plan, StartContext context)
    : plan_(plan),
      context_(std::move(context)),
      membership_(*plan.elastic, ElasticClock::now()),
      discovery_(*plan.elastic, context_.environment, context_.signal_mask) {}

Status ElasticRanks::start(JobOutput& output) {
    output_ = &output;
    null_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!null_.is_open()) {
        return system_failure(ErrorCode::internal, "open(/dev/null)");
    }
    if (plan_.elastic->discovery_script.empty()) {
        discovery_.stop();
        membership_.set_slots({{"localhost", plan_.elastic->slots, 0}}, ElasticClock::now());
    }
    advance(ElasticClock::now());
    return {};
}

void ElasticRanks::add_to(base::PollSet& set) {
    for (auto& [number, worker] : workers_) {
        if (worker.process.line_fd() >= 0) {
            set.add(worker.process.line_fd(), POLLIN, [this, number = number] { take_message(number); });
        }
        set.wake_at(worker.kill_at);
    }
    discovery_.add_to(set);
    if (!ends_.empty()) {
        set.wake_at(ElasticClock::now());  // take_ends() has not returned them yet
    }
    set.wake_at(is_ending() ? std::nullopt : membership_.deadline());
}

void ElasticRanks::take_message(int worker) {
    if (workers_.at(worker).process.take_wait() && !is_ending()) {
        membership_.waits(worker, ElasticClock::now());
        carry_out(ElasticClock::now());
    }
}

void ElasticRanks::advance(TimePoint now) {
    for (auto& [number, worker] : workers_) {
        if (worker.kill_at && now >= *worker.kill_at) {
            worker.kill_at.reset();
            worker.process.signal(SIGKILL);
        }
    }
    if (is_ending()) {
        discovery_.stop();
        return;
    }
    for (const std::string& note : discovery_.advance(now)) {
        say_once(note);
    }
    membership_.advance(now);
    carry_out(now);
}

/// Carries out the actions of Membership. Call this after each event, before the ends of further workers are collected,
/// so that no action refers to a worker that has ended. An action may fail at once, for example if a program cannot be
/// started, and then Membership has further actions.
void ElasticRanks::carry_out(TimePoint now) {
    for (auto actions = membership_.take_actions(); !actions.empty(); actions = membership_.take_actions()) {
        for (const Membership::Action& action : actions) {
            std::visit([this, now](const auto& one) { carry_out(one, now); }, action);
        }
        settle_ends();
    }
}

void ElasticRanks::carry_out(const Membership::Start& start, TimePoint /*now*/) {
    if (membership_.generation() >= 0) {
        output_->say(fmt::format("worker {} is started; it joins the other ranks at their next commit", start.worker));
    }
    if (const Status started = start_worker(start.worker); !started.is_ok()) {
        fresh_.push_back({start.worker, -1, not_started(start.worker, started.message())});
    }
}

Status ElasticRanks::start_worker(int number) {
    const Result<RankDescriptors> descriptors = output_->open_rank(number);
    RUEDA_RETURN_IF_FAILED(descriptors.status());
    ChildSpec spec;
    spec.file = context_.program_file;
    spec.words = plan_.program;
    spec.environment = changed_environment(context_.environment, plan_.environment);
    const bool is_first = membership_.generation() < 0 && number < plan_.ranks;
    // The rank of a newcomer is not known before init(). Its variables exist from the beginning nevertheless, with the
    // values of a job of one rank: init() then only replaces values, and the list of variables, which other threads may
    // read at the same time, stays at its place in memory.
    LaunchPlan alone = plan_;
    alone.ranks = 1;
    spec.environment = changed_environment(std::move(spec.environment),
                                           is_first ? rank_environment(plan_, number) : rank_environment(alone, 0));
    spec.environment = changed_environment(
        std::move(spec.environment),
        {{kJobVariable, std::nullopt}, {kGenerationVariable, "0"}, {kFirstGenerationVariable, "0"}});
    if (plan_.elastic->cores > 0) {
        const std::vector<EnvironmentChange> threads = threads_of_worker(spec.environment, *plan_.elastic, slots_);
        spec.environment = changed_environment(std::move(spec.environment), threads);
    }
    spec.stdin_fd = number == 0 && plan_.first_rank_reads_stdin ? kInherit : null_.value();
    spec.stdout_fd = descriptors.value().standard_output.value();
    spec.stderr_fd = descriptors.value().standard_error.value();
    spec.own_group = plan_.own_groups;
    spec.signal_mask = context_.signal_mask;
    Worker worker{RankProcess(context_.read), -1, -1, -1, false, std::nullopt};
    RUEDA_RETURN_IF_FAILED(worker.process.open_line(is_first ? number : 0, is_first ? plan_.ranks : 1));
    worker.process.notify(base::encode({ElasticKind::elastic, 0, ""}));
    int error_number = 0;
    const Status started = worker.process.start(std::move(spec), error_number);
    if (error_number != 0) {
        fresh_.push_back({number, -1, not_started(number, plan_.program.front(), error_number)});
        return {};
    }
    RUEDA_RETURN_IF_FAILED(started);
    workers_.emplace(number, std::move(worker));
    has_started_ = true;
    return {};
}

void ElasticRanks::carry_out(const Membership::Form& form, TimePoint /*now*/) {
    LaunchPlan generation = plan_;
    generation.ranks = static_cast<int>(form.members.size());
    Result<std::string> token = random_token();
    Result<HeldPort> port = hold_port();
    generation.rendezvous = "@rueda-" + (token.is_ok() ? token.value() : fmt::format("{}", form.generation));
    generation.master_port = port.is_ok() ? port.value().port : std::uint16_t{0};
    port_ = port.is_ok() ? std::optional(std::move(port).value()) : std::nullopt;
    notifications_ = RankNotifications();
    held_.clear();
    for (const Membership::Member& member : form.members) {
        Worker& worker = workers_.at(member.worker);
        worker.rank = member.rank;
        worker.generation = form.generation;
        worker.first_generation = worker.first_generation < 0 ? form.generation : worker.first_generation;
        std::vector<base::PlaceVariable> variables;
        for (const EnvironmentChange& change : rank_environment(generation, member.rank)) {
            variables.push_back({change.name, change.value.value_or("")});
        }
        variables.push_back({kGenerationVariable, fmt::format("{}", form.generation)});
        variables.push_back({kFirstGenerationVariable, fmt::format("{}", worker.first_generation)});
        const Result<std::string> text = base::encode_place(variables);
        // On one host the text is always short enough. If it were not, the worker would report a damaged place.
        worker.process.notify(base::encode({ElasticKind::place, member.rank, text.is_ok() ? text.value() : ""}));
    }
    if (form.generation > 0) {
        output_->say(fmt::format("the job goes on with {} {} (generation {})", generation.ranks,
                                 generation.ranks == 1 ? "rank" : "ranks", form.generation));
    }
}

void ElasticRanks::carry_out(const Membership::Tell& tell, TimePoint /*now*/) {
    workers_.at(tell.worker).process.notify(base::encode({ElasticKind::slots_changed, tell.changes, ""}));
}

void ElasticRanks::carry_out(const Membership::Dismiss& dismiss, TimePoint now) {
    const auto found = workers_.find(dismiss.worker);
    if (found == workers_.end()) {
        return;  // it has ended at the same time
    }
    Worker& worker = found->second;
    output_->say(fmt::format("worker {} is ended: {}", dismiss.worker, dismiss.reason));
    worker.is_dismissed = true;
    worker.kill_at = now + kDismissTime;
    worker.process.signal(SIGTERM);
    worker.process.signal(SIGCONT);
}

void ElasticRanks::carry_out(const Membership::Kill& kill, TimePoint /*now*/) {
    const auto found = workers_.find(kill.worker);
    if (found != workers_.end()) {  // otherwise it has ended at the same time
        output_->say(fmt::format("worker {} is killed: {}", kill.worker, kill.reason));
        found->second.process.signal(SIGKILL);
    }
}

/// Returns the ends that decide how the job has ended. After a success, only the members of the last generation count.
void ElasticRanks::carry_out(const Membership::End& end, TimePoint /*now*/) {
    discovery_.stop();
    if (!end.success) {
        output_->say(fmt::format("the elastic job ends: {}", end.reason));
        const std::string dismissal = base::encode({ElasticKind::dismissed, 0, end.reason});
        for (const auto& [number, worker] : workers_) {
            worker.process.notify(dismissal);
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
    return std::find_if(workers_.begin(), workers_.end(),
                        [pid](const auto& entry) { return entry.second.process.pid() == pid; });
}

void ElasticRanks::child_ends(pid_t pid, bool is_well) {
    if (const auto found = find_worker(pid); found != workers_.end()) {
        // Only a process of a failed worker may still take part in the old generation, so only these are killed.
        found->second.process.end_group(is_well || found->second.is_dismissed || is_ending());
    }
}

void ElasticRanks::child_ended(pid_t pid, int wait_status) {
    if (const std::optional<Discovered> discovered = discovery_.ended(pid, wait_status, ElasticClock::now())) {
        for (const std::string& note : discovered->notes) {
            say_once(note);
        }
        if (discovered->hosts && !is_ending()) {
            slots_ = slots_on(*discovered->hosts);
            settle_ends();  // no action may refer to a worker that has ended
            membership_.set_slots(*discovered->hosts, ElasticClock::now());
            carry_out(ElasticClock::now());
        }
        return;
    }
    const auto found = find_worker(pid);
    if (found == workers_.end()) {
        return;
    }
    auto& [number, worker] = *found;
    RankEnd end = worker.process.end(worker.rank >= 0 ? worker.rank : number, wait_status);
    output_->drain_rank(number);
    if (!worker.is_dismissed) {
        fresh_.push_back({number, worker.generation, std::move(end)});
    }
    workers_.erase(found);
}

/// Passes ends on to Membership. The ends were noticed together, so the members are notified of the most likely cause
/// first.
void ElasticRanks::settle_ends() {
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
                worker.process.notify(item.notification);
            }
        }
    }
}

std::vector<RankEnd> ElasticRanks::take_ends() {
    settle_ends();
    if (!stopping_) {
        carry_out(ElasticClock::now());
    }
    return std::exchange(ends_, {});
}

void ElasticRanks::signal_ranks(int signal_number) {
    if (ends_workers(signal_number) && !std::exchange(stopping_, true)) {
        discovery_.stop();
        for (const NumberedEnd& held : held_) {
            ends_.push_back(held.end);
        }
        held_.clear();
    }
    for (auto& [number, worker] : workers_) {
        if (stopping_) {
            worker.process.notify(base::encode({ElasticKind::dismissed, 0, "ruedarun ends the job"}));
        }
        worker.process.signal(signal_number);
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
