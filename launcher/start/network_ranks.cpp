// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/start/network_ranks.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <csignal>

#include "base/launcher_notification.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"
#include "launcher/hosts/network.hpp"
#include "launcher/plan/surroundings.hpp"

namespace rueda::launcher {

namespace {

/// For whoever connects to say who it is.
constexpr std::chrono::seconds kHelloTime{10};
/// From the end of the job to the end of the connections: what supervisors send meanwhile is output.
constexpr std::chrono::seconds kLinkTime{8};
/// Strangers that may be connected at the same time.
constexpr std::size_t kMostNewcomers = 4096;
constexpr std::size_t kLongestHello = 1024;

/// A connection to every rank, and some more: the soft limit of 1024 would be too few for large jobs.
void raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/// What a supervisor says first: four lines. Rank 0's names the port that it holds for its program, others 0.
struct Greeting {
    std::string secret;
    std::string host;
    std::uint16_t master_port = 0;
    std::string host_key;  ///< network.hpp
};

Greeting parse_greeting(std::string_view text) {
    const auto take_line = [&text] {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        return std::string(line);
    };
    Greeting greeting;
    greeting.secret = take_line();
    greeting.host = take_line();
    greeting.master_port = base::parse_integer<std::uint16_t>(take_line()).value_or(0);
    greeting.host_key = take_line();
    return greeting;
}

/// As a supervisor told it: nothing of it may harm a terminal.
std::string host_name_of(std::string name) {
    std::erase_if(name, [](char c) { return c <= ' ' || c > '~'; });
    return name;
}

}  // namespace

NetworkRanks::NetworkRanks(const LaunchPlan& plan, StartContext context)
    : plan_(plan), context_(std::move(context)), ranks_(static_cast<std::size_t>(plan.ranks)) {}

Status NetworkRanks::start(JobOutput& output) {
    output_ = &output;
    raise_descriptor_limit();
    ControlAddress address;
    Result<std::vector<base::UniqueFd>> listeners = listen_on_network(plan_.interfaces, address.endpoints);
    RUEDA_RETURN_IF_FAILED(listeners.status());
    acceptor_ = Acceptor(
        std::move(listeners).value(), SOCK_CLOEXEC | SOCK_NONBLOCK,
        [this](base::UniqueFd socket) { meet_newcomer(std::move(socket)); },
        [this](std::string_view line) { output_->say(line); });
    const Result<std::string> secret = random_token();
    RUEDA_RETURN_IF_FAILED(secret.status());
    secret_ = secret.value();
    address.secret = secret_;
    mpirun_.on_error_text = [this](std::string_view text) {
        if (!running().empty()) {
            output_->pass_on_error(text);
        }
    };
    start_deadline_ = std::chrono::steady_clock::now() + plan_.start_time;
    return mpirun_.start(plan_, context_, {{kControlVariable, format_control_address(address)}});
}

void NetworkRanks::add_to(PollSet& set) {
    std::erase_if(newcomers_, [](const auto& newcomer) { return !newcomer->link.is_open(); });
    acceptor_.add_to(set);
    for (const auto& newcomer : newcomers_) {
        set.add(newcomer->link.fd(), POLLIN, [this, one = newcomer.get()] { take_hello(*one); });
        set.wake_at(newcomer->deadline);
    }
    for (int rank = 0; rank < plan_.ranks; ++rank) {
        FrameLink& link = ranks_[static_cast<std::size_t>(rank)].link;
        if (link.is_open()) {
            set.add(link.fd(), POLLIN, [this, rank] { take_reports(rank); });
        }
        if (link.is_open() && link.has_queue()) {
            set.add(link.fd(), POLLOUT, [&link] { link.flush(); });
        }
    }
    mpirun_.add_to(set);
    if (mpirun_.is_released()) {
        set.wake_at(link_deadline_);
    } else if (std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return !rank.met && !rank.ended; })) {
        set.wake_at(start_deadline_);
    }
}

void NetworkRanks::meet_newcomer(base::UniqueFd socket) {
    if (newcomers_.size() < kMostNewcomers) {
        newcomers_.push_back(std::make_unique<Newcomer>(
            Newcomer{FrameLink(std::move(socket)), std::chrono::steady_clock::now() + kHelloTime}));
    }
}

void NetworkRanks::take_hello(Newcomer& newcomer) {
    const std::vector<Frame> frames = newcomer.link.receive(kLongestHello);
    if (frames.empty()) {
        return;
    }
    const Frame& hello = frames.front();
    const Greeting greeting = parse_greeting(hello.payload);
    const bool is_ours = frames.size() == 1 && hello.word == SupervisorWord::hello && hello.value >= 0 &&
                         hello.value < plan_.ranks && is_same_secret(greeting.secret, secret_);
    Rank* const rank = is_ours ? &ranks_[static_cast<std::size_t>(hello.value)] : nullptr;
    if (rank == nullptr || rank->met || rank->ended) {
        newcomer.link.close();
        return;
    }
    rank->met = true;
    rank->host = host_name_of(greeting.host);
    rank->host_key = greeting.host_key;
    rank->link = std::move(newcomer.link);
    newcomer.link = FrameLink();
    if (hello.value == 0) {
        master_port_ = greeting.master_port;
    }
    output_->open_remote_rank(hello.value);
    welcome_all_once_met();
}

/// The programs start together: each is told where rank 0 listens, and on which hosts the others are, which ruedarun
/// knows for certain only when all supervisors have reported.
void NetworkRanks::welcome_all_once_met() {
    const bool all_met = std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.met; });
    if (welcomed_ || start_failed_ || !all_met) {
        return;
    }
    welcomed_ = true;
    std::vector<std::string> hosts;
    for (const Rank& rank : ranks_) {
        hosts.push_back(rank.host_key);
    }
    const MasterAddress master{master_address(), master_port_};
    for (const TorchPlace& place : torch_places(hosts)) {
        ranks_[static_cast<std::size_t>(place.rank)].link.send(
            SupervisorWord::welcome, plan_.ranks, encode_variables(torch_environment(plan_, place, master)));
        for (const RankNotifications::Item& item : context_.notifications->told()) {
            tell_rank(place.rank, item);
        }
    }
}

/// An address of rank 0's host that other hosts reach: the one from which its supervisor has reached ruedarun. Where
/// rank 0 runs on ruedarun's own host, it is the one at which a supervisor of another host has reached ruedarun.
std::string NetworkRanks::master_address() const {
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

void NetworkRanks::tell_ranks(const RankNotifications::Item& item) {
    for (int rank = 0; rank < plan_.ranks; ++rank) {
        tell_rank(rank, item);
    }
}

/// The word about the failed rank is under way to all supervisors, so a host that is cut off does not acknowledge it.
void NetworkRanks::watch_closely() {
    if (std::exchange(is_watched_closely_, true)) {
        return;
    }
    for (const Rank& rank : ranks_) {
        rank.link.expect_answers();
    }
}

void NetworkRanks::tell_rank(int rank, const RankNotifications::Item& item) {
    Rank& peer = ranks_[static_cast<std::size_t>(rank)];
    if (peer.link.is_open() && !peer.ended) {
        peer.link.send(SupervisorWord::rank_ended, item.rank, item.word);
    }
}

void NetworkRanks::take_reports(int rank) {
    Rank& peer = ranks_[static_cast<std::size_t>(rank)];
    for (const Frame& frame : peer.link.receive()) {
        take_report(rank, frame);
    }
    if (!peer.link.is_open()) {
        lose(rank);
    }
}

void NetworkRanks::take_report(int rank, const Frame& frame) {
    switch (frame.word) {
        case SupervisorWord::output:
            output_->feed(rank, frame.value == kStandardError, frame.payload);
            ranks_[static_cast<std::size_t>(rank)].unacknowledged += frame.payload.size();
            break;
        case SupervisorWord::aborted:
            ranks_[static_cast<std::size_t>(rank)].abort_reason =
                base::printable(frame.payload, base::kMostLauncherText);
            break;
        case SupervisorWord::steps:
            ranks_[static_cast<std::size_t>(rank)].steps = told_steps(frame.payload);
            break;
        case SupervisorWord::oom_kills:
            ranks_[static_cast<std::size_t>(rank)].oom_kills = told_oom_kills(frame.value, frame.payload);
            break;
        case SupervisorWord::started:
            ranks_[static_cast<std::size_t>(rank)].pid = frame.value;
            break;
        case SupervisorWord::start_failed: {
            RankEnd end = not_started(rank, plan_.program.front(), frame.value);
            end.host = host(rank);
            end_rank(std::move(end));
            break;
        }
        case SupervisorWord::ended:
        case SupervisorWord::ended_by_launcher: {
            RankEnd end = end_of(rank, frame.value);
            end.by_launcher = frame.word == SupervisorWord::ended_by_launcher;
            end.oom_kills = ranks_[static_cast<std::size_t>(rank)].oom_kills;
            end_rank(std::move(end));
            break;
        }
        default:
            break;
    }
}

void NetworkRanks::lose(int rank) {
    output_->close_remote_rank(rank);
    RankEnd end = end_of(rank, SIGKILL);  // the wait status of a killed process, as far as we know
    end.lost = true;
    end_rank(std::move(end));
}

/// A link that breaks while something is sent is not heard of by reading.
void NetworkRanks::lose_broken_links() {
    for (int rank = 0; rank < plan_.ranks; ++rank) {
        const Rank& peer = ranks_[static_cast<std::size_t>(rank)];
        if (peer.met && !peer.ended && !peer.link.is_open()) {
            lose(rank);
        }
    }
}

RankEnd NetworkRanks::end_of(int rank, int wait_status) const {
    RankEnd end;
    end.rank = rank;
    end.pid = ranks_[static_cast<std::size_t>(rank)].pid;
    end.wait_status = wait_status;
    const std::string& told = ranks_[static_cast<std::size_t>(rank)].host;
    end.host = told.empty() ? host(rank) : told;
    end.abort_reason = ranks_[static_cast<std::size_t>(rank)].abort_reason;
    end.steps = ranks_[static_cast<std::size_t>(rank)].steps;
    return end;
}

void NetworkRanks::end_rank(RankEnd end) {
    if (!std::exchange(ranks_[static_cast<std::size_t>(end.rank)].ended, true)) {
        ends_.push_back(std::move(end));
        start_failed_ = start_failed_ || !welcomed_;
    }
}

void NetworkRanks::child_ended(pid_t pid, int wait_status) {
    if (!mpirun_.ended(pid)) {
        return;
    }
    if (!mpirun_.is_released()) {  // the supervisors wait for us, so mpirun had no reason to go
        ends_.push_back({kLauncherRank, pid, wait_status, "", false});
        start_failed_ = start_failed_ || !welcomed_;
    }
    for (Rank& rank : ranks_) {
        rank.ended = rank.ended || !rank.link.is_open();  // nobody will start them now
    }
}

void NetworkRanks::signal_ranks(int signal_number) {
    const bool ends_ranks = signal_number == SIGTERM || signal_number == SIGINT || signal_number == SIGHUP ||
                            signal_number == SIGQUIT || signal_number == SIGKILL;
    bool all_met = true;
    for (int number = 0; number < plan_.ranks; ++number) {
        Rank& rank = ranks_[static_cast<std::size_t>(number)];
        all_met = all_met && (rank.met || rank.ended);
        if (rank.link.is_open() && !rank.ended && welcomed_) {
            rank.link.send(SupervisorWord::deliver, signal_number);
        } else if (!welcomed_ && rank.met && ends_ranks) {  // there is no program that could get the signal
            RankEnd end = end_of(number, signal_number);
            end.by_launcher = true;
            end_rank(std::move(end));
        }
    }
    if (ends_ranks && !all_met) {
        mpirun_.signal(signal_number == SIGKILL ? SIGKILL : SIGTERM);
    }
}

std::vector<std::int32_t> NetworkRanks::running() const {
    std::vector<std::int32_t> running;
    for (int rank = 0; rank < plan_.ranks; ++rank) {
        if (!start_failed_ && !ranks_[static_cast<std::size_t>(rank)].ended) {
            running.push_back(rank);
        }
    }
    return running;
}

bool NetworkRanks::has_started() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.pid != 0; });
}

void NetworkRanks::release(TimePoint now) {
    mpirun_.release(now, is_watched_closely_ ? Mpirun::kLeavesAfterFailure : Mpirun::kLeaves);
    link_deadline_ = now + kLinkTime;
    for (Rank& rank : ranks_) {
        rank.ended = true;
        if (rank.link.is_open()) {
            rank.link.send(SupervisorWord::leave, 0);
        }
    }
}

void NetworkRanks::give_up_on_absent_ranks() {
    for (int rank = 0; rank < plan_.ranks; ++rank) {
        if (ranks_[static_cast<std::size_t>(rank)].met) {
            continue;
        }
        RankEnd end = not_started(
            rank, fmt::format("its supervisor has not reported within {} s; check that {} is there on that host, and "
                              "that the host can connect to this one (a firewall? --network-interfaces)",
                              plan_.start_time.count() / 1000, plan_.mpirun_program));
        end.host = host(rank);
        end_rank(std::move(end));
    }
}

/// What was taken is answered in few messages, and not while our own reader pauses.
void NetworkRanks::ask_for_more_output() {
    constexpr std::size_t kWorthAMessage = kOutputCredit / 4;
    if (output_->is_full()) {
        return;
    }
    for (Rank& rank : ranks_) {
        if (rank.link.is_open() && rank.unacknowledged >= kWorthAMessage) {
            rank.link.send(SupervisorWord::more_output,
                           static_cast<std::int32_t>(std::exchange(rank.unacknowledged, 0)));
        }
    }
}

void NetworkRanks::stop_output_that_nobody_reads() {
    for (const std::int32_t stream : {kStandardOutput, kStandardError}) {
        if (!output_->has_lost_reader(stream == kStandardError)) {
            continue;
        }
        for (Rank& rank : ranks_) {
            if (rank.link.is_open() && !std::exchange(rank.output_stopped[stream == kStandardError ? 1 : 0], true)) {
                rank.link.send(SupervisorWord::stop_output, stream);
            }
        }
    }
}

void NetworkRanks::advance(TimePoint now) {
    mpirun_.advance(now);
    lose_broken_links();
    ask_for_more_output();
    stop_output_that_nobody_reads();
    for (const auto& newcomer : newcomers_) {
        if (now >= newcomer->deadline) {
            newcomer->link.close();
        }
    }
    if (!mpirun_.is_released() && now >= start_deadline_) {
        give_up_on_absent_ranks();
    }
    links_expired_ = links_expired_ || (mpirun_.is_released() && now >= link_deadline_);
}

bool NetworkRanks::is_gone() const {
    const bool links_open =
        std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.link.is_open(); });
    return mpirun_.is_released() && mpirun_.is_gone() && (!links_open || links_expired_);
}

}  // namespace rueda::launcher
